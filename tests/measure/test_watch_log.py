"""Following a log that grows, is renamed, copied, truncated, replaced: every line once, and only what may be kept."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.measure.watch.followed_log import LONGEST_LINE_BYTES, FollowedLog, Kept, KeptLines, LogFileError, Mark
from draftmeter.record.watched import WatchedError

PADDING = "x" * 300  # so that the places of a log can be told apart


def number_of(line: str) -> str | None:
    """A stand-in for what reads vLLM's lines: of the lines that begin with `keep`, their number."""
    word, _, number = line.partition(" ")
    return number.split()[0] if word == "keep" else None


KEPT = Kept((b"keep", b"eep "), number_of)


class Log:
    """A log as a server writes it, and what of it should be kept."""

    def __init__(self, path: Path, mode: str = "ab") -> None:
        self.path = path
        self.file = path.open(mode, buffering=0)
        self.kept: list[str] = []

    def write(self, *numbers: int) -> None:
        for number in numbers:
            self.file.write(f"prompt of a user {PADDING}\nkeep {number} {PADDING}\n".encode())
            self.kept.append(str(number))

    def reopen(self) -> None:
        self.file.close()
        self.file = self.path.open("ab", buffering=0)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "server.log")


def follow(log: Log, mark: Mark | None = None) -> FollowedLog:
    return FollowedLog(log.path, KEPT, mark)


def test_begins_at_the_end_and_reads_what_is_appended(log: Log) -> None:
    log.write(1)
    followed = follow(log)
    assert followed.new_lines() == []
    log.write(2, 3)
    assert followed.new_lines() == ["2", "3"]
    assert followed.new_lines() == []


def test_a_line_that_is_being_written_is_held_back(log: Log) -> None:
    log.file.write(b"keep 1 th")
    followed = follow(log)  # in the middle of a line: that line is read whole
    assert followed.new_lines() == []
    log.file.write(b"e rest\nkeep 2")
    assert followed.new_lines() == ["1"]
    log.file.write(b"3\n")
    assert followed.new_lines() == ["23"]


def test_rotation_by_renaming_loses_nothing(log: Log, tmp_path: Path) -> None:
    log.write(1)
    followed = follow(log)
    log.write(2)
    log.path.rename(tmp_path / "server.log.1")
    log.write(3)  # the server has not opened its new file yet
    assert followed.new_lines() == ["2", "3"]
    log.path.touch()
    log.write(4)
    assert followed.new_lines() == ["4"]
    log.write(5)
    log.reopen()
    log.write(6)
    assert followed.new_lines() == ["5", "6"]


def test_a_rotation_between_two_looks_loses_nothing(log: Log, tmp_path: Path) -> None:
    followed = follow(log)
    log.write(1)
    log.path.rename(tmp_path / "server.log.1")
    log.reopen()
    log.write(2)
    assert followed.new_lines() == ["1", "2"]


def test_rotation_by_copying_and_truncating_reads_the_rest_in_the_copy(log: Log, tmp_path: Path) -> None:
    log.write(1)
    followed = follow(log)
    log.write(2)
    assert followed.new_lines() == ["2"]
    log.write(3)
    shutil.copy(log.path, tmp_path / "server.log.1")
    os.truncate(log.path, 0)
    assert followed.new_lines() == ["3"]
    log.write(4)
    assert followed.new_lines() == ["4"]
    assert not followed.place_lost()


def test_truncation_is_noticed_even_if_the_file_has_grown_past_the_place(log: Log) -> None:
    log.write(1)
    followed = follow(log)
    os.truncate(log.path, 0)
    log.write(2, 3, 4)
    assert followed.new_lines() == ["2", "3", "4"]
    assert followed.place_lost()


def test_a_server_that_does_not_append_leaves_a_hole(tmp_path: Path) -> None:
    log = Log(tmp_path / "server.log", "wb")  # as a shell's > does
    log.write(*range(1000))
    followed = follow(log)
    os.truncate(log.path, 0)
    assert followed.new_lines() == []
    log.write(1000, 1001)
    assert log.path.stat().st_size > 600_000
    assert followed.new_lines() == ["1000", "1001"]
    log.write(1002)
    assert followed.new_lines() == ["1002"]


def test_a_log_that_is_gone_for_a_while(log: Log) -> None:
    followed = follow(log)
    log.write(1)
    log.path.unlink()
    assert followed.new_lines() == ["1"]
    assert followed.new_lines() == []
    log.reopen()
    log.write(2)
    assert followed.new_lines() == ["2"]


def test_a_new_log_that_cannot_be_read_is_tried_again(log: Log, tmp_path: Path) -> None:
    followed = follow(log)
    log.write(1)
    log.path.rename(tmp_path / "server.log.1")
    log.path.mkdir()  # nobody may read this as a file, not even root
    (log.path / "something").touch()
    assert followed.new_lines() == ["1"]
    assert followed.problem is not None
    (log.path / "something").unlink()
    log.path.rmdir()
    log.reopen()
    log.write(2)
    assert followed.new_lines() == ["2"]
    assert followed.problem is None


def test_a_line_without_end_takes_no_memory_and_hides_only_itself(log: Log) -> None:
    followed = follow(log)
    for _ in range(5):
        log.file.write(b"keep 7 " + b"x" * LONGEST_LINE_BYTES)
        assert followed.new_lines() == []
    assert len(followed._held) <= LONGEST_LINE_BYTES
    log.file.write(b" keep 8\n")
    log.write(9)
    assert followed.new_lines() == ["9"]


def test_bytes_that_are_no_text_do_no_harm(log: Log) -> None:
    followed = follow(log)
    log.file.write(b"\xff\xfe\0\x80\nkeep 1 \xff\n\n\n")
    assert followed.new_lines() == ["1"]


@given(st.lists(st.sampled_from(["keep 7", "a keep 8", "keep 1 keep 2", "eep ", "", "x", "\0keep 9", "prompt"])))
def test_each_line_is_kept_once_and_in_order(lines: list[str]) -> None:
    expected = [number for line in lines if (number := number_of(line.lstrip("\0"))) is not None]
    assert KEPT.of("".join(f"{line}\n" for line in lines).encode()) == expected


def continued(log: Log, mark: Mark) -> list[str]:
    followed = follow(log, mark)
    lines = followed.new_lines()
    assert followed.new_lines() == []
    followed.close()
    return lines


def test_goes_on_where_it_stopped(log: Log) -> None:
    log.write(1)
    followed = follow(log)
    log.file.write(b"keep 2 ")
    assert followed.new_lines() == []
    mark = followed.mark()
    log.file.write(b"end\n")
    log.write(3)
    assert continued(log, mark) == ["2", "3"]
    assert continued(log, followed.mark()) == ["2", "3"]


@pytest.mark.parametrize("how", ["renamed", "copied", "renamed twice"])
def test_goes_on_after_a_rotation_in_between(log: Log, tmp_path: Path, how: str) -> None:
    log.write(1)
    mark = follow(log).mark()
    log.write(2)
    if how == "copied":
        shutil.copy(log.path, tmp_path / "server.log-20261130")
        os.truncate(log.path, 0)
    else:
        log.path.rename(tmp_path / "server.log.1")
        log.reopen()
    log.write(3)
    if how == "renamed twice":
        (tmp_path / "server.log.1").rename(tmp_path / "server.log.2")
    assert continued(log, mark) == ["2", "3"]


def test_begins_a_new_file_at_its_start_and_says_that_lines_may_be_missing(log: Log) -> None:
    log.write(1)
    mark = follow(log).mark()
    log.path.unlink()
    log.reopen()
    log.write(2, 3)
    followed = follow(log, mark)
    assert followed.place_lost()
    assert followed.new_lines() == ["2", "3"]
    assert not followed.place_lost()


def test_an_inode_that_is_used_again_is_not_the_same_log(log: Log) -> None:
    log.write(1)
    mark = follow(log).mark()
    os.truncate(log.path, 0)
    log.write(2, 3)  # as long as before and longer, in the same inode
    assert continued(log, mark) == ["2", "3"]


@pytest.mark.parametrize("name", ["none", "folder"])
def test_what_is_no_log_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(LogFileError, match=f"--log: .*{name} (does not exist|is not a file); expected"):
        FollowedLog(tmp_path / name, KEPT, None)


def record_lines(folder: Path) -> list[str]:
    return (folder / "server.log").read_text().splitlines()


def test_stored_lines_survive_a_kill_at_any_moment(log: Log, tmp_path: Path) -> None:
    folder = tmp_path / "record"
    folder.mkdir()
    log.write(1)
    kept = KeptLines(folder, log.path, KEPT)
    position = (folder / "log-position.json").read_bytes()
    log.write(2, 3)
    kept.take()
    # Killed after the lines were written and before their position was, in the middle of a line.
    (folder / "log-position.json").write_bytes(position)
    os.truncate(folder / "server.log", (folder / "server.log").stat().st_size - 1)
    log.write(4)
    again = KeptLines(folder, log.path, KEPT)
    again.take()
    assert record_lines(folder) == ["2", "3", "4"]


def test_stored_lines_stay_if_their_log_is_gone(log: Log, tmp_path: Path) -> None:
    folder = tmp_path / "record"
    folder.mkdir()
    log.write(1)
    kept = KeptLines(folder, log.path, KEPT)
    position = (folder / "log-position.json").read_bytes()
    log.write(2)
    kept.take()
    (folder / "log-position.json").write_bytes(position)
    log.path.unlink()
    log.reopen()
    log.write(3)
    again = KeptLines(folder, log.path, KEPT)
    again.take()
    assert again.place_lost()
    assert record_lines(folder) == ["2", "3"]


def test_a_position_that_cannot_be_read_is_an_error(log: Log, tmp_path: Path) -> None:
    (tmp_path / "log-position.json").write_text("{}")
    with pytest.raises(WatchedError, match=r"log-position.json: not a position in a log.*remove it"):
        KeptLines(tmp_path, log.path, KEPT)
