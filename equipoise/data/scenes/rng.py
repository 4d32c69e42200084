"""Random numbers that depend on names alone: the same on every machine, in every order of asking."""

from __future__ import annotations

from hashlib import blake2b
from random import Random


def dice(*names: str | int) -> Random:
    """A generator of its own for, say, (seed, split, index, purpose)."""
    text = "/".join(map(str, names))
    return Random(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little"))
