"""Random numbers keyed by what they are for: a pure function of the key, on every machine and in every order of calls.

    generator(seed, "crop", position)        a torch generator
    python_random(seed, split, index, what)  a `random.Random`
    keyed_int(text)                          one number, for choices by name and for comparing texts

All rest on 64 bits of BLAKE2b. The two generators write their keys differently (`repr` of the tuple, names joined by
slashes) and read the digest from different ends; stored runs and the built-in corpus depend on both, so both stay.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import Literal

import torch
from torch import Generator

BITS = 64


def keyed_int(key: str | bytes, byteorder: Literal["big", "little"] = "big", signed: bool = False) -> int:
    """A number of 64 bits, uniform over keys: from 0 up, or from -2^63 if signed.

    Half a pair of surrogates, which JSON may hold and UTF-8 may not, is a sign like any other."""
    data = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    return int.from_bytes(blake2b(data, digest_size=BITS // 8).digest(), byteorder, signed=signed)


def generator(*key: int | str, device: torch.device | str = "cpu") -> Generator:
    """A torch generator fixed by its key (a seed, a purpose, a position), independent of every other one."""
    return Generator(device).manual_seed(keyed_int(repr(key)) >> 1)


def python_random(*key: str | int) -> Random:
    """A generator of Python's own kind fixed by its key, say (seed, split, index, purpose)."""
    return Random(keyed_int("/".join(map(str, key)), "little"))
