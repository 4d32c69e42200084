"""Indices of shards as files of a cache, mapped into memory where they are read.

A file is compared with its CRC when a shard is opened, and when it is mapped later and is not the very file that this
process compared. One that is damaged, cut short, of another version or of another shard is as good as none. Only the
latest maps stay open, for each holds a descriptor and a process may have few: who reads from another shard maps its
index again. To read all of it for that would cost five times as much, and the disk's rate where indices exceed memory.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import time
import zlib
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from equipoise.data.files.packed_index import CRC_ENDS, FIELDS, Header, NotThisIndex, PackedIndex, Span
from equipoise.io.atomic import replacing

OPEN_MAPS = 64
CHUNK = 1 << 16  # bytes at a time for the CRC: read, not mapped, so that they count nowhere as this process's memory
SETTLED = 2 * 10**9  # nanoseconds after which a file that is written again surely gets another time of change
SHOWN = 40  # characters of the shard's name in that of its index


def owner_of(shard: Path) -> bytes:
    """A digest of the shard's whole path: shards of one name in several folders have indices of their own."""
    return hashlib.blake2b(os.fsencode(shard.absolute()), digest_size=16).digest()


def index_file(folder: Path, shard: Path) -> Path:
    return folder / f"{shard.stem[:SHOWN]}.{owner_of(shard).hex()}.index"


def write_index(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def find_index(path: Path, shard: Path, stamp: Span) -> bytes | None:
    """The header of a file that is the index of this shard as it is now; None where there is no such file."""
    try:
        with path.open("rb") as file:
            header = _checked(file)
            found = Header.read(header)
            if (found.owner, (found.size, found.changed)) != (owner_of(shard), stamp):
                return None
            _map(file).require_sound()
    except (OSError, NotThisIndex):
        return None
    return header


_compared: dict[tuple[int, int], tuple[int, ...]] = {}  # by device and inode: files that fit their CRC, as they were


@lru_cache(OPEN_MAPS)  # what it drops is closed when the last reader lets go of it
def mapped_index(path: Path, header: bytes) -> PackedIndex:
    """The index with this header. Raises NotThisIndex where the file holds something else by now, or OSError."""
    with path.open("rb") as file:
        if _checked(file) != header:
            raise NotThisIndex("another index")
        return _map(file)


def _checked(file: BinaryIO) -> bytes:
    """The header of an index whose length and CRC are right."""
    data = file.read(FIELDS.size)
    header = Header.read(data)
    status = os.fstat(file.fileno())
    if status.st_size != header.length():
        raise NotThisIndex("cut short, or longer than it says")
    name, state = (status.st_dev, status.st_ino), (header.crc, status.st_mtime_ns, status.st_ctime_ns)
    if _compared.get(name) == state:
        return data
    crc = zlib.crc32(data[CRC_ENDS:])
    while chunk := file.read(CHUNK):
        crc = zlib.crc32(chunk, crc)
    if crc != header.crc:
        raise NotThisIndex("damaged")
    if time.time_ns() - max(state[1:]) > SETTLED:
        _compared[name] = state
    return data


def _map(file: BinaryIO) -> PackedIndex:
    return PackedIndex(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
