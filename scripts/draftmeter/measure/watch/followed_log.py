"""Follow a server's log: keep its statistics lines, none lost or doubled, and measure the zone of
their time stamps.

What is appended is read through rotation by renaming, by copying and truncating, and over the
watch's own restarts. A log is told apart by its inode and by the bytes before the place up to which
it was read: inodes are used again, and a truncated file may have grown past that place before
anyone looks.
"""

import glob
import hashlib
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from draftmeter.formats.log import WORDS, statistics_text
from draftmeter.formats.utc_offset import LARGEST_UTC_OFFSET_S, utc_offset_text
from draftmeter.measure.watch.recording import append_whole, open_to_append
from draftmeter.record.watched import SERVER_LOG, WatchedError, first_problem
from draftmeter.strict import Strict, write_json

LOG_POSITION = "log-position.json"

CHUNK_BYTES = 2**20
# A statistics line has some hundreds of bytes; a line that is longer than this is passed over.
LONGEST_LINE_BYTES = 2**20
TAIL_BYTES = 1024
# So many bytes before a place tell one log from another, whatever their inodes say.
TELLING_BYTES = 256

_STAMP = re.compile(r"(?<![\d-])(?P<month>\d\d)-(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)(?![\d:])")
QUARTER_S = 900
# A line that was held back in a buffer is older than its arrival, by any amount: it tells nothing.
LARGEST_DELAY_S = 90
# So many readings in a row must agree.
READINGS = 3


class LogFileError(ValueError):
    """A log file that cannot be followed: which, what was found, what would be right."""


class Mark(Strict):
    """The place up to which a log was read; `digest` is the sha256 of the up to 1,024 bytes before
    it.
    """

    device: int
    inode: int
    offset: int
    digest: str


@dataclass(frozen=True)
class Kept:
    """What is kept of a log: of the lines that hold one of `words`, what `text` makes of them,
    unless that is None.
    """

    words: tuple[bytes, ...]
    text: Callable[[str], str | None]

    def of(self, data: bytes) -> list[str]:
        """What is kept of whole lines. The rest of a log, nearly all of it, is only searched."""
        starts = set()
        for word in self.words:
            at = data.find(word)
            while at >= 0:
                starts.add(data.rfind(b"\n", 0, at) + 1)
                at = data.find(word, at + len(word))
        lines = (data[start : data.index(b"\n", start)] for start in sorted(starts))
        texts = (self.text(line.lstrip(b"\0").decode(errors="replace")) for line in lines)
        return [text for text in texts if text is not None]


STATISTICS = Kept(WORDS, statistics_text)
"""Of a vLLM log only the statistics lines are kept, cut down to their own text: never a prompt or a
reply.
"""


class FollowedLog:
    """A log at `path`, read as it grows.

    Without a mark reading begins at the log's end (at the start of the line that is being written
    there); with one it goes on at the mark, in whatever file beside `path` it lies, and is at the
    start of `path` if it lies in none. Raises :class:`LogFileError`.
    """

    def __init__(self, path: Path, kept: Kept, mark: Mark | None) -> None:
        self._path = path
        self._kept = kept
        self.problem: str | None = None
        """Why the log could not be read when it was looked at last; None if it could."""
        self._place_lost = False
        require_log(path)
        try:
            if mark is None:
                self._open(path, _last_line_start(path))
                return
            place = _locate(path, mark)
            self._place_lost = place is None
            self._open(path if place is None else place, 0 if place is None else mark.offset)
        except OSError as error:
            raise LogFileError(f"--log: {path}: {error.strerror}") from error

    def mark(self) -> Mark:
        """The place up to which lines were taken."""
        state = os.fstat(self._file)
        return Mark(device=state.st_dev, inode=state.st_ino, offset=self._offset, digest=_digest(self._tail))

    def new_lines(self) -> list[str]:
        """What is kept of each complete line that was appended since the last call.

        A last line without its line feed waits for it; in a file that was given up it is dropped. A
        log that cannot be read now is a `problem`, and is tried again at the next call.
        """
        kept: list[str] = []
        self.problem = None
        try:
            while self._take(kept):
                pass
        except OSError as error:
            self.problem = error.strerror
            self._seen = (-1, -1)
        return kept

    def _take(self, kept: list[str]) -> bool:
        """Take what one file has; return whether another file follows."""
        # Looked at first: once the new file has content, the old one is complete.
        replaced = self._is_replaced()
        if self._was_cut():
            copy = _locate(self._path, self.mark())
            self._reopen(self._path if copy is None else copy, 0 if copy is None else self._offset)
            self._place_lost |= copy is None
            return True
        kept += self._appended()
        if replaced:
            self._reopen(self._path, 0)
        return replaced

    def place_lost(self) -> bool:
        """Whether, since this was asked last, the place up to which the log was read was in no file
        any more.

        Lines that were written just before that may be missing.
        """
        lost, self._place_lost = self._place_lost, False
        return lost

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self, path: Path, offset: int) -> None:
        """Go to a place in a file; if it cannot be read, everything stays as it was."""
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            tail = _bytes_before(file, offset)
        except OSError:
            os.close(file)
            raise
        self._file = file
        self._offset = offset
        """Where the first line begins that was not taken yet; `_tail` stands before it, `_held`
        after it.
        """
        self._tail = tail
        self._held = b""
        self._passing_over = False
        self._seen = (-1, -1)

    def _reopen(self, path: Path, offset: int) -> None:
        before = self._file
        self._open(path, offset)
        os.close(before)

    def _is_replaced(self) -> bool:
        """Whether the path names another file by now, which has content."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return there.st_size > 0 and not os.path.samestat(there, os.fstat(self._file))

    def _was_cut(self) -> bool:
        """Whether what was read before is no longer in the file."""
        state = os.fstat(self._file)
        now = (state.st_size, state.st_mtime_ns)
        if now == self._seen:
            return False
        self._seen = now
        return state.st_size < self._offset + len(self._held) or _bytes_before(self._file, self._offset) != self._tail

    def _appended(self) -> list[str]:
        kept = []
        self._skip_hole()
        while chunk := os.pread(self._file, CHUNK_BYTES, self._offset + len(self._held)):
            data = self._held + chunk
            end = data.rfind(b"\n") + 1
            if end == 0 and len(data) > LONGEST_LINE_BYTES:
                self._passing_over = True
                end = len(data)
            elif end > 0:
                kept += self._kept.of(data[data.index(b"\n") + 1 if self._passing_over else 0 : end])
                self._passing_over = False
            self._held = data[end:]
            self._offset += end
            self._tail = (self._tail + data[:end])[-TAIL_BYTES:]
        return kept

    def _skip_hole(self) -> None:
        """A server that does not append leaves a hole in front when its log is truncated: it goes
        on at its old place.
        """
        if self._held:
            return
        with suppress(OSError):  # nothing but a hole, or a file system that does not tell
            data = os.lseek(self._file, self._offset, os.SEEK_DATA)
            if data > self._offset:
                self._offset = data
                self._tail = _bytes_before(self._file, data)


class LogPosition(Strict):
    """log-position.json: up to where the log was read when server.log had `kept_bytes` bytes."""

    mark: Mark
    kept_bytes: int


class KeptLines:
    """Follows the log at `path` and stores what is `kept` of it in the record at `folder`."""

    def __init__(self, folder: Path, path: Path, kept: Kept = STATISTICS) -> None:
        self._position = folder / LOG_POSITION
        before = _read_position(self._position)
        self._log = FollowedLog(path, kept, None if before is None else before.mark)
        self._place_lost = self._log.place_lost()
        self._lines = open_to_append(folder / SERVER_LOG)
        if before is not None and not self._place_lost and os.fstat(self._lines).st_size > before.kept_bytes:
            # Written by a session that was killed before it noted its position: these lines are
            # read again.
            os.ftruncate(self._lines, before.kept_bytes)
        self._note_position()

    def take(self) -> list[str]:
        """Store the lines that are new; they are returned too."""
        lines = self._log.new_lines()
        if lines:
            append_whole(self._lines, "".join(f"{line}\n" for line in lines))
            self._note_position()
        return lines

    @property
    def problem(self) -> str | None:
        """Why the log could not be read when it was looked at last; None if it could."""
        return self._log.problem

    def place_lost(self) -> bool:
        """Whether, since this was asked last, lines of the log may have been missed: it was
        replaced or truncated.
        """
        lost = self._place_lost or self._log.place_lost()
        self._place_lost = False
        return lost

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._note_position()
        self._log.close()
        os.close(self._lines)

    def _note_position(self) -> None:
        write_json(self._position, LogPosition(mark=self._log.mark(), kept_bytes=os.fstat(self._lines).st_size))


class ZoneMeter:
    """Takes the lines that arrived together; `zone` is None until several arrivals in a row gave
    the same offset.
    """

    def __init__(self) -> None:
        self._readings: deque[str] = deque(maxlen=READINGS)

    def add(self, lines: Sequence[str], now: float) -> None:
        """Take what arrived at `now` (Unix seconds); only the last line is new enough to tell."""
        offset = stamp_offset(lines[-1], now) if lines else None
        if offset is not None:
            self._readings.append(offset)

    @property
    def zone(self) -> str | None:
        """The offset from UTC, such as +01:00."""
        return self._readings[0] if len(self._readings) == READINGS and len(set(self._readings)) == 1 else None


def require_log(path: Path) -> None:
    """Raise :class:`LogFileError` if there is no log at `path`."""
    if not path.is_file():
        found = "is not a file" if path.exists() else "does not exist"
        raise LogFileError(f"--log: {path} {found}; expected the file that the server's log is written to")
    if not os.access(path, os.R_OK):
        raise LogFileError(f"--log: {path} may not be read by this user")


def _locate(path: Path, mark: Mark) -> Path | None:
    """The file in which the place of `mark` lies: `path`, or one beside it whose name begins alike;
    None if in none.
    """
    found = []
    for candidate in path.parent.glob(f"{glob.escape(path.name)}*"):
        with suppress(OSError):  # removed or compressed in this moment
            state = candidate.stat()
            same = (state.st_dev, state.st_ino) == (mark.device, mark.inode)
            if not candidate.is_file() or state.st_size < mark.offset or not (same or mark.offset >= TELLING_BYTES):
                continue
            if _digest_before(candidate, mark.offset) == mark.digest:
                found.append((same, state.st_mtime_ns, candidate))
    return max(found)[-1] if found else None


def _digest_before(path: Path, offset: int) -> str:
    with path.open("rb") as file:
        return _digest(_bytes_before(file.fileno(), offset))


def _bytes_before(file: int, offset: int) -> bytes:
    first = max(offset - TAIL_BYTES, 0)
    return os.pread(file, offset - first, first)


def _digest(tail: bytes) -> str:
    return hashlib.sha256(tail).hexdigest()


def _last_line_start(path: Path) -> int:
    """The offset after the last line feed of a file; its end if that is far away."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        near = max(size - CHUNK_BYTES, 0)
        file.seek(near)
        end = file.read(size - near).rfind(b"\n") + 1
    return near + end if end > 0 or near == 0 else size


def stamp_offset(line: str, now: float) -> str | None:
    """The offset from UTC, to a quarter of an hour, at which the stamp of `line` is the time `now`;
    None if there is none.
    """
    match = _STAMP.search(line)
    if match is None:
        return None
    clock = datetime.fromtimestamp(now, UTC)
    for year in (clock.year, clock.year - 1, clock.year + 1):
        try:
            stamp = datetime.fromisoformat(f"{year}-{match['month']}-{match['day']}T{match['time']}+00:00")
        except ValueError:
            continue  # 29 February exists in some of the years only
        ahead = (stamp - clock) / timedelta(seconds=1)
        quarters = round(ahead / QUARTER_S)
        if abs(ahead) <= LARGEST_UTC_OFFSET_S + LARGEST_DELAY_S and abs(ahead - quarters * QUARTER_S) <= LARGEST_DELAY_S:
            return utc_offset_text(quarters * QUARTER_S)
    return None


def _read_position(path: Path) -> LogPosition | None:
    if not path.exists():
        return None
    try:
        return LogPosition.model_validate_json(path.read_bytes())
    except ValueError as error:
        problem = first_problem(error)
        raise WatchedError(f"{path}: not a position in a log: {problem}; remove it to follow the log from its end") from error
