"""Many small pieces of bytes in one file, by number: NAME.bin, and where each ends in NAME.ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equipoise.index.points import AGAIN, mapped
from equipoise.types import UserError

ENDS = np.dtype("<i8")


class BlobWriter:
    def __init__(self, folder: Path, name: str):
        self.file, self.ends = (folder / f"{name}.bin").open("wb"), (folder / f"{name}.ends").open("wb")
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.file.write(piece)
        self.size += len(piece)
        self.ends.write(np.array([self.size], ENDS).tobytes())

    def close(self) -> None:
        self.file.close()
        self.ends.close()


class Blobs:
    """The pieces of a file."""

    def __init__(self, folder: Path, name: str, count: int):
        self.path = folder / f"{name}.bin"
        self.ends = mapped(folder / f"{name}.ends", ENDS, (count,))
        size = int(self.ends[-1]) if count else 0
        self.bytes = mapped(self.path, np.dtype("u1"), (size,)) if size >= 0 else None

    def __getitem__(self, place: int) -> bytes:
        start, stop = int(self.ends[place - 1]) if place else 0, int(self.ends[place])
        if self.bytes is None or not 0 <= start <= stop <= len(self.bytes):
            raise UserError(f"{self.path} does not fit the file of its pieces' ends; {AGAIN}")
        return self.bytes[start:stop].tobytes()
