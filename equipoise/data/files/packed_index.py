"""The layout of a shard's index: which records it holds and where their files lie, as a few arrays in one buffer.

    header    magic, version, CRC-32 of all that follows it, whose index it is (path, size, time of change), counts
    ends      [records + 1] where each key begins in `keys`; the last number is their length
    files     for each kind of file that occurs in the shard: blocks [records], sizes [records]
    keys      all keys, UTF-8, one after the other
    faults    the records that were left out, as JSON; nothing where there are none

Contents in a tar begin at multiples of 512 bytes, never at 0, so `blocks` counts these, and 0 says that a record has no
such file. Numbers are uint32, enough for shards up to 2 TiB, and uint64 in an index where one of them would not fit.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from equipoise.data.bad_records import Fault
from equipoise.data.files.tar_index import BLOCK

MAGIC, VERSION = b"EQ-SHARD", 4
KINDS = ("image", "txt", "json", "cls", "regions.npy", "regions.npz")  # another list is another version
CRC_ENDS = 16  # magic, version and the CRC itself
FIELDS = struct.Struct("<8sII16sQqQQQBB6x")
NARROW, WIDE = np.dtype("<u4"), np.dtype("<u8")
CONTINUED = 0x80  # the upper two bits of a byte inside a character of UTF-8

Span = tuple[int, int]  # offset, size
Buffer = bytes | memoryview


class NotThisIndex(ValueError):
    """Raised for bytes that are no index, a damaged one, or that of something else."""


class Header(NamedTuple):
    magic: bytes
    version: int
    crc: int
    owner: bytes  # a digest of the shard's path
    size: int  # of the shard, bytes
    changed: int  # the shard's time of change, nanoseconds
    records: int
    key_bytes: int
    fault_bytes: int
    kinds: int  # bit k: KINDS[k] occurs
    wide: int  # 1: numbers are uint64

    @classmethod
    def read(cls, data: Buffer) -> Header:
        if len(data) < FIELDS.size:
            raise NotThisIndex("cut short")
        header = cls(*FIELDS.unpack(data[: FIELDS.size]))
        if (header.magic, header.version) != (MAGIC, VERSION):
            raise NotThisIndex("another format")
        return header

    def numbers(self) -> np.dtype:
        return WIDE if self.wide else NARROW

    def names(self) -> list[str]:
        """The kinds of files that occur, in their order."""
        return [name for bit, name in enumerate(KINDS) if self.kinds >> bit & 1]

    def length(self) -> int:
        """Bytes of the index with its header."""
        count = self.records + 1 + 2 * self.records * len(self.names())
        return FIELDS.size + count * self.numbers().itemsize + self.key_bytes + self.fault_bytes


class PackedIndex:
    """An index, read from its buffer wherever that lies; nothing is copied."""

    def __init__(self, data: Buffer):
        self.header = Header.read(data)
        if len(data) != self.header.length():
            raise NotThisIndex("cut short, or longer than it says")
        self.data, numbers, records = data, self.header.numbers(), self.header.records
        self._at = FIELDS.size
        self.ends = self._next(numbers, records + 1)
        self.files = {
            name: (self._next(numbers, records), self._next(numbers, records)) for name in self.header.names()
        }
        self._keys = self._at

    def _next(self, dtype: np.dtype, count: int) -> np.ndarray:
        found = np.frombuffer(self.data, dtype, count, self._at)
        self._at += found.nbytes
        return found

    def __reduce__(self) -> tuple[type[PackedIndex], tuple[bytes]]:
        return type(self), (bytes(self.data),)

    def __len__(self) -> int:
        return self.header.records

    def key(self, record: int) -> str:
        start, stop = int(self.ends[record]), int(self.ends[record + 1])
        return bytes(self.data[self._keys + start : self._keys + stop]).decode()

    def spans(self, record: int) -> dict[str, Span]:
        """Where the files of a record lie in the shard, by kind."""
        found = {name: (int(blocks[record]), int(sizes[record])) for name, (blocks, sizes) in self.files.items()}
        return {name: (block * BLOCK, size) for name, (block, size) in found.items() if block}

    def faults(self) -> list[Fault]:
        if not self.header.fault_bytes:
            return []
        return [Fault(place, reason) for place, reason in json.loads(bytes(self.data[-self.header.fault_bytes :]))]

    def require_sound(self) -> None:
        """Raises NotThisIndex where something in it could not be: keys that are no text, files beyond the shard."""
        keys = np.frombuffer(self.data, np.uint8, self.header.key_bytes, self._keys)
        starts = self.ends[:-1][self.ends[:-1] < self.ends[1:]]
        rising = not self.ends[0] and self.ends[-1] == len(keys) and (self.ends[:-1] <= self.ends[1:]).all()
        if not rising or (keys[starts] >> 6 == CONTINUED >> 6).any():
            raise NotThisIndex("its keys overlap")
        for blocks, sizes in self.files.values():
            starts = blocks.astype(WIDE) * WIDE.type(BLOCK)
            if (blocks > self.header.size // BLOCK).any() or (sizes > WIDE.type(self.header.size) - starts).any():
                raise NotThisIndex("files beyond the end of the shard")
        try:
            keys.tobytes().decode()
            texts = [text for fault in self.faults() for text in (fault.place, fault.reason)]
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise NotThisIndex(str(error)) from None
        if not all(isinstance(text, str) for text in texts):
            raise NotThisIndex("faults that are no text")


def packed(
    owner: bytes, stamp: Span, keys: Sequence[str], files: Sequence[Mapping[str, Span]], faults: Sequence[Fault]
) -> bytes:
    """The index of the shard with the digest `owner` and the size and time of change `stamp`."""
    words = [key.encode() for key in keys]
    ends = np.cumsum([0, *map(len, words)], dtype=np.uint64)
    names = [name for name in KINDS if any(name in own for own in files)]
    columns = [ends, *(column for name in names for column in _columns(name, files))]
    wide = any(len(column) and int(column.max()) > np.iinfo(NARROW).max for column in columns)
    told = json.dumps([[fault.place, fault.reason] for fault in faults]).encode() if faults else b""
    content = b"".join([*(column.astype(WIDE if wide else NARROW).tobytes() for column in columns), *words, told])
    kinds = sum(1 << KINDS.index(name) for name in names)
    counts = (len(words), int(ends[-1]), len(told), kinds, int(wide))
    header = FIELDS.pack(MAGIC, VERSION, 0, owner, *stamp, *counts)
    crc = zlib.crc32(content, zlib.crc32(header[CRC_ENDS:]))
    return FIELDS.pack(MAGIC, VERSION, crc, owner, *stamp, *counts) + content


def _columns(name: str, files: Sequence[Mapping[str, Span]]) -> tuple[np.ndarray, np.ndarray]:
    """Blocks and sizes of the files of a kind, 0 for a record without one."""
    spans = np.array([own.get(name, (0, 0)) for own in files], dtype=np.uint64).reshape(-1, 2)
    assert not (spans[:, 0] % BLOCK).any(), "contents in a tar begin at a block"
    return spans[:, 0] // np.uint64(BLOCK), spans[:, 1]
