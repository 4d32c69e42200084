"""Records by their keys, in 12 bytes a record: digests of the keys, sorted.

A digest says where to look; whether the key is the one looked for is asked of the records themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from equipoise.data.record_numbers import record_numbers


class KeyTable:
    """The `count` records whose keys `key_of` tells."""

    def __init__(self, key_of: Callable[[int], str], count: int):
        self.key_of = key_of
        digests = np.fromiter((_digest(key_of(record)) for record in range(count)), np.uint64, count)
        order = digests.argsort(kind="stable")
        self._digests, self._records = digests[order], record_numbers(order)

    def __getitem__(self, key: str) -> int:
        """The first record with a key. Raises KeyError."""
        digest = np.uint64(_digest(key))
        for place in range(int(np.searchsorted(self._digests, digest)), len(self._digests)):
            if self._digests[place] != digest:
                break
            if self.key_of(record := int(self._records[place])) == key:
                return record
        raise KeyError(key)

    def repeated(self) -> int | None:
        """The first record that has the key of one before it."""
        again = np.flatnonzero(self._digests[1:] == self._digests[:-1]) + 1
        later = sorted(int(record) for record in self._records[again])
        return next((record for record in later if self[self.key_of(record)] != record), None)


def _digest(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
