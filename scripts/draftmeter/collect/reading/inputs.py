"""Find what there is to read in files and folders, and open it: plain, gzip, zstd or standard input."""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

from draftmeter.collect.reading import kinds
from draftmeter.collect.reading.decompress import Decompressed, compression_of

STDIN = "-"
HEAD_BYTES = 1 << 16


class InputError(ValueError):
    """Something that cannot be read at all: which path, what was found, what would be right."""


@dataclass(frozen=True)
class Input:
    """One source to read. `name` is the path as it was given, with what lies below it; `path` is null for standard input."""

    name: str
    path: Path | None
    kind: str
    """"file" (contents not looked at yet), or one of the kinds of folders."""


@dataclass(frozen=True)
class Skipped:
    """Something in a folder that is not read, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Found:
    """Everything below the given paths, in order: the paths as given, the names in a folder sorted."""

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
    """When the file was last written; null for standard input."""
    _decompressed: Decompressed | None = None

    @property
    def damage(self) -> str | None:
        """What is wrong with the compressed data, once the stream was read; null if nothing is."""
        return self._decompressed.damage if self._decompressed is not None else None


def find_inputs(paths: Sequence[str]) -> Found:
    """All inputs below `paths`; raise :class:`InputError` for a path that is not there, or is given twice."""
    found = Found([], [])
    for name in paths:
        if name == STDIN:
            found.inputs.append(Input(STDIN, None, "file"))
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
    """Open a file, or standard input for null; raise :class:`InputError` if it cannot be read or has to be unpacked first."""
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
    if (what := kinds.unopened(head)) is not None:
        stream.close()
        inside = "" if compression is None else f"{compression} of "
        raise InputError(f"{name}: {inside}{what}; unpack or convert it first")
    kind = kinds.kind_of_text(head, whole=len(head) < HEAD_BYTES)
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
    """A file's name as text that can be written everywhere: bytes that are no UTF-8 are replaced."""
    return os.fsencode(name).decode(errors="replace")


def _add(name: str, path: Path, found: Found) -> None:
    if not path.is_dir():
        found.inputs.append(Input(name, path, "file"))
        return
    kind = kinds.kind_of_folder(path)
    if kind in {kinds.STUDY_RECORD, kinds.WATCHED_RECORD, kinds.TABLES}:
        found.inputs.append(Input(name, path, kind))
    elif kind == kinds.BOOT:
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
        found.inputs.append(Input(f"{name}/{run.path}", folder / run.path, kinds.STUDY_RECORD))
        listed.append(folder / run.path)
    for other in sorted(folder.glob("**/record.json")):
        if other.parent not in listed:
            below = other.parent.relative_to(folder).as_posix()
            found.skipped.append(
                Skipped(f"{name}/{below}", "boot.json does not list it: it is of another attempt, or was interrupted")
            )
