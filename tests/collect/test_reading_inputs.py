"""What is found in files and folders, and how it is opened: compressed, damaged, unknown, twice."""

import gzip
import io
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.collect.decompress import Decompressed, compression_of
from draftmeter.collect.inputs import METRICS, TEXT, InputError, find_inputs, kind_of_text, open_input, unopened
from made_up_records import write_boot
from made_up_server import ServerState, exposition

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor().compress,
}
# Words in random order: compressible, yet long enough when compressed to be cut in the middle.
TEXT_BYTES = b" ".join(random.Random(5).choices([b"alpha", b"beta", b"gamma", b"delta", b"%d" % 7], k=200_000))


def read_all(data: bytes, compression: str) -> tuple[bytes, str | None]:
    stream = Decompressed(io.BytesIO(data), compression)
    return io.BufferedReader(stream).read(), stream.damage


@pytest.mark.parametrize("compression", COMPRESS)
@given(parts=st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_members_follow_each_other(compression: str, parts: list[bytes]) -> None:
    data = b"".join(COMPRESS[compression](part) for part in parts)
    assert compression_of(data) == compression
    assert read_all(data, compression) == (b"".join(parts), None)


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_cut_file_gives_what_was_before_the_cut(compression: str) -> None:
    data = COMPRESS[compression](TEXT_BYTES)
    found, damage = read_all(data[: len(data) // 2], compression)
    assert len(found) > len(TEXT_BYTES) // 3 and TEXT_BYTES.startswith(found)
    assert damage == (
        f"{compression}: the file ends before its compressed data does; read up to byte {len(found)} of the decompressed stream"
    )


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_damaged_file_gives_what_was_before_the_damage(compression: str) -> None:
    whole = COMPRESS[compression](TEXT_BYTES)
    at = len(whole) * 2 // 3
    found, damage = read_all(whole[:at] + bytes(40) + whole[at + 40 :], compression)
    assert damage is not None and damage.startswith(f"{compression}: the compressed data is damaged")
    assert len(found) > len(TEXT_BYTES) // 3
    # What the damaged bytes say is only noticed at the checksum, or where they make no sense.
    assert TEXT_BYTES[: len(TEXT_BYTES) // 3] == found[: len(TEXT_BYTES) // 3]


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("tail", [b"plain text", b"\x1f", b"\x00\x00x"])
def test_bytes_after_the_end_are_reported(compression: str, tail: bytes) -> None:
    found, damage = read_all(COMPRESS[compression](b"inside") + tail, compression)
    assert found == b"inside"
    assert damage == f"{compression}: what follows is not compressed with it; read up to byte 6 of the decompressed stream"


def test_zeros_after_the_end_are_padding() -> None:
    assert read_all(COMPRESS["gzip"](b"inside") + bytes(512), "gzip") == (b"inside", None)


@pytest.mark.parametrize("compression", COMPRESS)
@given(data=st.binary(max_size=200))
def test_any_bytes_at_all(compression: str, data: bytes) -> None:
    start = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}[compression]
    read_all(start + data, compression)
    read_all(COMPRESS[compression](b"x" * 50) + data, compression)


METRICS_TEXT = exposition(ServerState([1, 2, 3, 4])).encode()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (METRICS_TEXT, METRICS),
        (METRICS_TEXT.replace(b"\n", b"\r\n"), METRICS),
        (b"\n\nvllm:generation_tokens_total 1.378852e+06\n", METRICS),
        (b'vllm:x_total{engine="0",model_name="a b}c"} 3 1700000000000 # {trace="a"} 1\n# EOF\n', METRICS),
        (b"(APIServer pid=71) INFO 11-30 05:11:52 [loggers.py:335] Engine 000: Avg prompt\n", TEXT),
        (b"INFO: 127.0.0.1:1234 - GET /metrics HTTP/1.1 200\n", TEXT),
        (METRICS_TEXT + b"INFO 11-30 05:11:52 a log line\n", TEXT),
        (b'{"key": 3}\n', TEXT),
        (b"", TEXT),
        (b"\x00\x01\x02", TEXT),
    ],
)
def test_the_kind_of_a_text_follows_from_its_lines(text: bytes, kind: str) -> None:
    assert kind_of_text(text, whole=True) == kind


@pytest.mark.parametrize("whole", [False, True])
def test_a_line_that_is_cut_does_not_decide(whole: bool) -> None:
    assert kind_of_text(b"vllm:a_total 3\nvllm:b_to", whole=whole) == METRICS
    assert kind_of_text(b"vllm:b_to", whole=whole) == TEXT


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"vllm:generation_tokens_total 3 1796000000.123\n", METRICS),
        (b"Tue Dec  1 02:29:00 UTC 2026\nvllm:generation_tokens_total 3\nvllm:prompt_tokens_total 5\n", METRICS),
        (b"# by hand\nvllm:generation_tokens_total 3\nvllm:prompt_tokens_total 5\n", METRICS),
        (METRICS_TEXT.replace(b"vllm:prompt_tokens_total", b"vllm:prompt tokens total"), METRICS),
        (b"Tue Dec  1 02:29:00 UTC 2026\nnode_load1 0.5\nnode_load5 0.4\n", TEXT),
        (b"Chapter 1\nOf servers\nvllm:generation_tokens_total 3\n", TEXT),
        (b"# A title\n# And another\n", TEXT),
    ],
)
def test_lines_of_something_else_are_let_through_among_samples_of_vllm(text: bytes, kind: str) -> None:
    assert kind_of_text(text, whole=True) == kind


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"\xfd7zXZ\x00...", "compressed with xz"),
        (b"BZh91AY", "compressed with bzip2"),
        (b"BZhello", None),
        (b"PK\x03\x04...", "a zip archive"),
        (b"\xff\xfeI\x00N\x00", "text in UTF-16"),
        (b"server.log".ljust(257, b"\0") + b"ustar\x0000", "a tar archive"),
        (b"INFO", None),
    ],
)
def test_what_has_to_be_unpacked_is_named(head: bytes, what: str | None, tmp_path: Path) -> None:
    assert unopened(head) == what
    (tmp_path / "file").write_bytes(head)
    if what is not None:
        with pytest.raises(InputError, match=f"file: {what}; unpack or convert it first"):
            open_input(tmp_path / "file")
        (tmp_path / "file").write_bytes(gzip.compress(head))
        with pytest.raises(InputError, match=f"file: gzip of {what}"):
            open_input(tmp_path / "file")


@pytest.mark.parametrize("compression", [None, *COMPRESS])
def test_a_file_opens_at_its_start_whatever_its_name(compression: str | None, tmp_path: Path) -> None:
    path = tmp_path / "anything.png"
    path.write_bytes(TEXT_BYTES if compression is None else COMPRESS[compression](TEXT_BYTES))
    os.utime(path, (1.7e9, 1.7e9))
    opened = open_input(path)
    with opened.stream as stream:
        assert stream.read(5) == TEXT_BYTES[:5]
        rest = b"".join(iter(lambda: stream.read(1 << 20), b""))
    assert TEXT_BYTES[5:] == rest
    assert (opened.compression, opened.damage, opened.kind) == (compression, None, TEXT)
    assert opened.modified is not None and opened.modified.timestamp() == 1.7e9


def test_standard_input_has_no_date(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(gzip.compress(METRICS_TEXT))
    monkeypatch.setattr("sys.stdin", (tmp_path / "input").open())
    opened = open_input(None)
    assert (opened.kind, opened.compression, opened.modified) == (METRICS, "gzip", None)
    assert opened.stream.read() == METRICS_TEXT


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, TEXT_BYTES[:3])
    os.write(writing, TEXT_BYTES[3:1000])
    os.close(writing)
    opened = open_input(Path(f"/dev/fd/{reading}"))
    assert opened.stream.read() == TEXT_BYTES[:1000]
    os.close(reading)


def touch(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_folder_gives_its_files_sorted_and_what_it_skips(tmp_path: Path) -> None:
    for name in ("b.log", "a.log", "sub/c.log", ".hidden", "watched/watch.json", "watched/scrapes.jsonl"):
        touch(tmp_path / name)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "sub")
    (tmp_path / "log-link").symlink_to(touch(tmp_path.parent / "elsewhere.log"))
    touch(tmp_path / "tables/reading.json", "{}")
    found = find_inputs([f"{tmp_path}/"])
    assert [(item.name.removeprefix(f"{tmp_path}/"), item.kind) for item in found.inputs] == [
        ("a.log", "file"),
        ("b.log", "file"),
        ("log-link", "file"),
        ("sub/c.log", "file"),
        ("tables", "tables"),
        ("watched", "watched record"),
    ]
    assert [(item.name.removeprefix(f"{tmp_path}/"), item.reason) for item in found.skipped] == [
        ("link", "a link to a folder; give it as a path of its own"),
        ("pipe", "neither a file nor a folder"),
    ]


def test_a_boot_gives_the_runs_that_it_lists(tmp_path: Path) -> None:
    boot = write_boot(tmp_path / "records/production/boot-1")
    touch(tmp_path / "records/production/boot-1/attempt-0/pair/record.json")
    found = find_inputs([str(tmp_path / "records")])
    assert [item.name for item in found.inputs] == [f"{boot.parent}/attempt-1/pair", f"{boot.parent}/attempt-1/traffic"]
    (skipped,) = found.skipped
    assert skipped.name.endswith("boot-1/attempt-0/pair") and "another attempt" in skipped.reason
    boot.write_text(json.dumps({"runs": 3}))
    (skipped,) = find_inputs([str(tmp_path)]).skipped
    assert "boot.json: not a boot.json" in skipped.reason


def test_what_is_not_there_or_given_twice_is_refused(tmp_path: Path) -> None:
    path = touch(tmp_path / "a.log")
    with pytest.raises(InputError, match=r"nowhere\.log: no such file or folder"):
        find_inputs([str(path), "nowhere.log"])
    with pytest.raises(InputError, match="given twice, also as"):
        find_inputs([str(tmp_path), str(path)])
    with pytest.raises(InputError, match="-: given twice"):
        find_inputs(["-", "-"])


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match="loop: "):
        open_input(tmp_path / "loop")
