"""Streams out of compressed files: all that can be read before a damage, and what the damage is."""

import io
import zlib
from collections.abc import Callable, Sequence
from typing import BinaryIO, Protocol

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# Skippable frames, which tools put in front of or between zstd frames.
ZSTD_SKIPPABLE = tuple(bytes([0x50 + number]) + b"\x2a\x4d\x18" for number in range(16))
LONGEST_START = 4
# Small, because the output of the piece in which a damage is found is lost.
CHUNK = 1 << 14


class _Decompressor(Protocol):
    """What a gzip member's and a zstd frame's decompressor have in common."""

    @property
    def eof(self) -> bool:
        """Whether its end was reached."""

    @property
    def unused_data(self) -> bytes:
        """What was given to it after its end."""

    def decompress(self, data: bytes, /) -> bytes:
        """What `data` adds to the output."""


def compression_of(head: bytes) -> str | None:
    """gzip or zstd by the first bytes of a file, None for anything else."""
    if head.startswith(GZIP):
        return "gzip"
    return "zstd" if head.startswith((ZSTD, *ZSTD_SKIPPABLE)) else None


class Decompressed(io.RawIOBase):
    """The bytes in a gzip or zstd stream, its members one after the other.

    It never raises for what the stream holds. A stream that ends early or is damaged ends where
    the damage is: `damage` then says what was found, after how many bytes of the output. It is
    None while nothing is wrong.
    """

    def __init__(self, compressed: BinaryIO, compression: str) -> None:
        super().__init__()
        self.damage: str | None = None
        self._compressed = compressed
        self._name = compression
        self._make, self._errors, self._start = _formats(compression)
        self._member: _Decompressor | None = None
        self._ready = memoryview(b"")
        self._given = 0
        self._over = False

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]  # Buffer has no public name in 3.11
        """Fill `buffer` as far as the next piece of output goes; 0 at the end."""
        while not self._ready and not self._over:
            self._ready = memoryview(self._next_piece())
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        self._given += n
        return n

    def close(self) -> None:
        """Close the compressed stream as well."""
        self._compressed.close()
        super().close()

    def _next_piece(self) -> bytes:
        data = self._compressed.read(CHUNK)
        if not data:
            self._over = True
            if self._member is not None:
                self._note("the file ends before its compressed data does", [])
            return b""
        pieces: list[bytes] = []
        while data and not self._over:
            if self._member is None:
                data = data.lstrip(b"\0")  # padding after a member
                if data and len(data) < LONGEST_START:
                    data += self._compressed.read(LONGEST_START)
                if not data.startswith(self._start):
                    self._over = True
                    if data:
                        self._note("what follows is not compressed with it", pieces)
                    break
                self._member = self._make()
            try:
                pieces.append(self._member.decompress(data))
            except self._errors as error:
                self._over = True
                self._note(f"the compressed data is damaged ({error})", pieces)
                break
            data = self._member.unused_data if self._member.eof else b""
            if self._member.eof:
                self._member = None
        return b"".join(pieces)

    def _note(self, what: str, pieces: Sequence[bytes]) -> None:
        read = self._given + sum(map(len, pieces))
        self.damage = f"{self._name}: {what}; read up to byte {read} of the decompressed stream"


def _formats(compression: str) -> tuple[Callable[[], _Decompressor], tuple[type[Exception], ...], tuple[bytes, ...]]:
    if compression == "gzip":
        return (lambda: zlib.decompressobj(wbits=31)), (zlib.error,), (GZIP,)
    import zstandard  # noqa: PLC0415  only where a file needs it

    return (lambda: zstandard.ZstdDecompressor().decompressobj()), (zstandard.ZstdError,), (ZSTD, *ZSTD_SKIPPABLE)
