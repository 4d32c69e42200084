"""Many small pieces of bytes in one file, by number: NAME.bin, and where each begins and ends in NAME.spans.

A piece that several numbers share (the picture of several texts) may be written once.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from equipoise.index.points import AGAIN, mapped
from equipoise.types import UserError

SPANS = np.dtype("<i8")


class BlobWriter:
    """Writes pieces one after the other; with `once`, equal ones once."""

    def __init__(self, folder: Path, name: str, once: bool = False):
        self.file, self.spans = (folder / f"{name}.bin").open("wb"), (folder / f"{name}.spans").open("wb")
        self.size, self.once = 0, once
        self.known: dict[bytes, tuple[int, int]] = {}

    def add(self, piece: bytes) -> None:
        self.spans.write(np.array(self._span(piece), SPANS).tobytes())

    def _span(self, piece: bytes) -> tuple[int, int]:
        name = hashlib.blake2b(piece, digest_size=16).digest() if self.once else b""
        if name in self.known:
            return self.known[name]
        span = self.size, self.size + len(piece)
        self.file.write(piece)
        self.size = span[1]
        if self.once:
            self.known[name] = span
        return span

    def close(self) -> None:
        self.file.close()
        self.spans.close()


class Blobs:
    """The pieces of a file."""

    def __init__(self, folder: Path, name: str, count: int):
        self.path = folder / f"{name}.bin"
        self.spans = mapped(folder / f"{name}.spans", SPANS, (count, 2))
        size = self.path.stat().st_size if self.path.is_file() else 0
        self.bytes = mapped(self.path, np.dtype("u1"), (size,))

    def __getitem__(self, place: int) -> bytes:
        start, stop = map(int, self.spans[place])
        if not 0 <= start <= stop <= len(self.bytes):
            raise UserError(f"{self.path} does not fit the file that says where its pieces are; {AGAIN}")
        return self.bytes[start:stop].tobytes()
