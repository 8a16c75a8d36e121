"""Find what there is to read in files and folders, and open it, compressed or not.

What a file or a folder is follows from its contents and not from its name.
"""

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal, cast, get_args

from draftmeter.collect.decompress import Decompressed, compression_of

STDIN = "-"
HEAD_BYTES = 1 << 16

FILE = "file"
METRICS, TEXT = "metrics", "text"
STUDY_RECORD, BOOT, WATCHED_RECORD, TABLES, FOLDER = "study record", "boot", "watched record", "tables", "folder"

# What `draftmeter read` writes last; a folder with it holds whole tables.
READING_JSON = "reading.json"
_FOLDERS = {"record.json": STUDY_RECORD, "watch.json": WATCHED_RECORD, "boot.json": BOOT, READING_JSON: TABLES}

_COMMENT = re.compile(rb"#( (HELP|TYPE|UNIT|EOF)\b.*)?")
# A number may be followed by a time, in milliseconds or (OpenMetrics) in seconds with a fraction.
_SAMPLE = re.compile(
    rb"[A-Za-z_:][\w:]*(\{.*\})?[ \t]+[-+]?(\d+(\.\d*)?([eE][-+]?\d+)?|\.\d+|NaN|Inf)"
    rb"([ \t]+-?\d+(\.\d*)?([eE][-+]?\d+)?)?[ \t]*(# .*)?"
)
_VLLM_SAMPLE = re.compile(rb"(ray_)?vllm[:_]")
# The level that an entry of a log carries.
_LOG_ENTRY = re.compile(rb"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
# Archives and compressions that are not opened here, by their first bytes.
_UNOPENED = {
    b"\xfd7zXZ\x00": "compressed with xz",
    b"BZh": "compressed with bzip2",
    b"\x04\x22\x4d\x18": "compressed with lz4",
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
_TAR = slice(257, 262)
FEWEST_BYTES_OF_BZIP2 = 4

IntervalsFrom = Literal["auto", "lines", "counters"]
INTERVALS_FROM: tuple[IntervalsFrom, ...] = get_args(IntervalsFrom)


@dataclass(frozen=True)
class Settings:
    """What the user says about files that do not say it themselves; None where nothing was said.

    It wins over what a file lets one infer, never over what the file says.
    """

    zone: str | None = None
    """UTC offset of the time stamps in logs, such as "+01:00"."""
    year: int | None = None
    """Of the first line of a log."""
    log_interval_s: float | None = None
    k: int | None = None
    """Draft tokens per step."""
    intervals: IntervalsFrom = "auto"
    """Of a watched record: from its log lines, from differences of its counters, or from lines
    where it has some.
    """


class InputError(ValueError):
    """Something that cannot be read at all: which path, what was found, what would be right."""


@dataclass(frozen=True)
class Input:
    """One source to read.

    `name` is the path as it was given, with what lies below it; `path` is None for standard input.
    """

    name: str
    path: Path | None
    kind: str
    """FILE (contents not looked at yet), or one of the kinds of folders."""


@dataclass(frozen=True)
class Skipped:
    """Something in a folder that is not read, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Found:
    """All below the given paths, in order: the paths as given, names in a folder sorted."""

    inputs: list[Input]
    skipped: list[Skipped]


@dataclass
class Opened:
    """A stream of decompressed bytes from its start, and what its first bytes are."""

    stream: BinaryIO
    head: bytes
    kind: str
    compression: str | None
    modified: datetime | None
    """When the file was last written; None for standard input."""
    _decompressed: Decompressed | None = None

    @property
    def damage(self) -> str | None:
        """What is wrong with the compressed data, once the stream was read; None if nothing is."""
        return self._decompressed.damage if self._decompressed is not None else None


def find_inputs(paths: Sequence[str]) -> Found:
    """All inputs below `paths`.

    Raises :class:`InputError` for a path that is not there, or is given twice.
    """
    found = Found([], [])
    for name in paths:
        if name == STDIN:
            found.inputs.append(Input(STDIN, None, FILE))
        elif not Path(name).exists():
            raise InputError(f"{name}: no such file or folder")
        else:
            _add(_shown(name.rstrip("/") or name), Path(name), found)
    seen: dict[str, str] = {}
    for item in found.inputs:
        key = STDIN if item.path is None else os.path.realpath(item.path)
        if key in seen:
            raise InputError(f"{item.name}: given twice, also as {seen[key]}; give it once, or its counts are doubled")
        seen[key] = item.name
    return found


def open_input(path: Path | None) -> Opened:
    """Open a file, or standard input for None.

    Raises :class:`InputError` if it cannot be read or has to be unpacked first.
    """
    name = STDIN if path is None else str(path)
    try:
        raw = sys.stdin.buffer if path is None else path.open("rb", buffering=0)
        modified = None if path is None else datetime.fromtimestamp(os.fstat(raw.fileno()).st_mtime, UTC)
        return _recognised(name, cast("BinaryIO", raw), modified)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error


def _recognised(name: str, raw: BinaryIO, modified: datetime | None) -> Opened:
    head, stream = _with_head(raw)
    compression, decompressed = compression_of(head), None
    if compression is not None:
        decompressed = Decompressed(stream, compression)
        head, stream = _with_head(cast("BinaryIO", decompressed))
    if (what := unopened(head)) is not None:
        stream.close()
        inside = "" if compression is None else f"{compression} of "
        raise InputError(f"{name}: {inside}{what}; unpack or convert it first")
    kind = kind_of_text(head, whole=len(head) < HEAD_BYTES)
    return Opened(stream, head, kind, compression, modified, decompressed)


def _with_head(raw: BinaryIO) -> tuple[bytes, BinaryIO]:
    """The first bytes of a stream, and a stream that starts with them again."""
    pieces, wanted = [], HEAD_BYTES
    while wanted > 0 and (piece := raw.read(wanted)):
        pieces.append(piece)
        wanted -= len(piece)
    head = b"".join(pieces)
    if raw.seekable():
        raw.seek(0)
        return head, raw
    return head, cast("BinaryIO", io.BufferedReader(_Again(head, raw), HEAD_BYTES))


class _Again(io.RawIOBase):
    """`head`, then what is left of `rest`."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # Buffer has no public name in 3.11
        if self._head:
            n = min(len(buffer), len(self._head))
            buffer[:n] = self._head[:n]
            self._head = self._head[n:]
            return n
        piece = self._rest.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._rest.close()
        super().close()


def _shown(name: str) -> str:
    """A file's name as text that can be written everywhere: bytes not of UTF-8 are replaced."""
    return os.fsencode(name).decode(errors="replace")


def _add(name: str, path: Path, found: Found) -> None:
    if not path.is_dir():
        found.inputs.append(Input(name, path, FILE))
        return
    kind = kind_of_folder(path)
    if kind in {STUDY_RECORD, WATCHED_RECORD, TABLES}:
        found.inputs.append(Input(name, path, kind))
    elif kind == BOOT:
        _add_boot(name, path, found)
    else:
        for child in _children(name, path, found):
            _add(f"{name}/{_shown(child.name)}", child, found)


def _children(name: str, folder: Path, found: Found) -> Iterator[Path]:
    try:
        children = sorted(folder.iterdir(), key=lambda child: child.name)
    except OSError as error:
        found.skipped.append(Skipped(name, f"cannot be read: {error.strerror}"))
        return
    for child in children:
        if child.name.startswith("."):
            continue
        if child.is_dir() and child.is_symlink():
            found.skipped.append(Skipped(f"{name}/{_shown(child.name)}", "a link to a folder; give it as a path of its own"))
        elif not child.is_dir() and not child.is_file():
            found.skipped.append(Skipped(f"{name}/{_shown(child.name)}", "neither a file nor a folder"))
        else:
            yield child


def _add_boot(name: str, folder: Path, found: Found) -> None:
    """The runs that boot.json lists: attempts of one boot are never taken together."""
    from draftmeter.record.run import RecordError, read_boot  # noqa: PLC0415  its models are slow to import

    try:
        boot = read_boot(folder / "boot.json")
    except RecordError as error:
        found.skipped.append(Skipped(name, str(error)))
        return
    listed = []
    for run in boot.runs:
        found.inputs.append(Input(f"{name}/{run.path}", folder / run.path, STUDY_RECORD))
        listed.append(folder / run.path)
    for other in sorted(folder.glob("**/record.json")):
        if other.parent not in listed:
            below = other.parent.relative_to(folder).as_posix()
            found.skipped.append(
                Skipped(f"{name}/{below}", "boot.json does not list it: it is of another attempt, or was interrupted")
            )


def kind_of_folder(folder: Path) -> str:
    """One of the kinds of folders above; FOLDER for any other folder."""
    return next((kind for name, kind in _FOLDERS.items() if (folder / name).is_file()), FOLDER)


def unopened(head: bytes) -> str | None:
    """What a file is that must be unpacked or converted first, by its first bytes; else None."""
    if head[_TAR] == b"ustar":
        return "a tar archive"
    if head.startswith(b"BZh") and not head[3:FEWEST_BYTES_OF_BZIP2].isdigit():
        return None
    return next((what for start, what in _UNOPENED.items() if head.startswith(start)), None)


def kind_of_text(head: bytes, whole: bool) -> str:
    """METRICS if `head` is made of lines of a Prometheus text, else TEXT: a log, or something else.

    Among samples of vLLM, fewer lines of something else (a date, a bad line) are let through unless
    one is a log's. `head` is the start of the text, `whole`: it is all of it. A last line without
    its line feed, which may be cut, does not decide where there are others.
    """
    lines = head.splitlines()
    if lines and not head.endswith((b"\n", b"\r")) and not (whole and len(lines) == 1):
        lines = lines[:-1]
    lines = [line.strip() for line in lines if line.strip()]
    foreign: list[bytes] = []
    of_vllm = 0
    for line in lines:
        if _SAMPLE.fullmatch(line):
            of_vllm += _VLLM_SAMPLE.match(line) is not None
        elif not _COMMENT.fullmatch(line):
            foreign.append(line)
    if not foreign:
        return METRICS if lines else TEXT
    return METRICS if of_vllm > len(foreign) and not any(map(_LOG_ENTRY.search, foreign)) else TEXT
