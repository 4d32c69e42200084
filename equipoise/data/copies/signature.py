"""What is remembered of a picture to find its copies: a digest of its pixels, hashes of its views, a thumbnail.

    difference hash   64 bits: whether each cell of an 8 x 9 picture is darker than its right neighbour
    cosine hash       64 bits: whether each of the 8 x 8 lowest frequencies (DCT) lies above their median

They are the dHash and pHash of Krawetz 2011 and Zauner 2010 ("Implementation and Benchmarking of Perceptual Image Hash
Functions"). Either changes in few bits where a picture is compressed, resized or brightened; crops and mirror images
are found by hashing views of it (`views.py`). 16 + 176 + 768 bytes a picture.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from equipoise.data.copies.views import VIEWS, sampling

SIDE, HASHED = 16, 32  # pixels of a thumbnail, and of the grey picture that is hashed
GREY = (0.299, 0.587, 0.114)
STEP = 0.5  # grey levels: of a flat surface no cell is darker than the next
HASHES = 2


@dataclass(frozen=True)
class Signatures:
    """Of N pictures."""

    digests: np.ndarray  # [N] 16 bytes each
    hashes: np.ndarray  # uint64 [views, HASHES, N]
    thumbnails: Tensor  # uint8 [N, 3, SIDE, SIDE]

    def __len__(self) -> int:
        return len(self.digests)

    @classmethod
    def of(cls, pictures: Tensor) -> Signatures:
        """Of uint8 pictures [N, 3, H, W]."""
        digests = [hashlib.blake2b(one.tobytes(), digest_size=16).digest() for one in pictures.cpu().numpy()]
        floats = pictures.float()
        grey = (floats * floats.new_tensor(GREY)[:, None, None]).sum(1, keepdim=True)
        hashed = F.interpolate(grey, (HASHED, HASHED), mode="area")[:, 0].cpu()
        bits = torch.stack([torch.stack(_bits(hashed, *ways)) for ways in VIEWS])  # [views, HASHES, N, 64]
        thumbnails = F.interpolate(floats, (SIDE, SIDE), mode="area").round().to(torch.uint8).cpu()
        return cls(np.array(digests, dtype="S16").view("V16"), _packed(bits.numpy()), thumbnails)

    @classmethod
    def joined(cls, parts: Sequence[Signatures]) -> Signatures:
        return cls(
            np.concatenate([part.digests for part in parts]),
            np.concatenate([part.hashes for part in parts], axis=2),
            torch.cat([part.thumbnails for part in parts]),
        )

    def taken(self, order: np.ndarray) -> Signatures:
        return Signatures(self.digests[order], self.hashes[:, :, order], self.thumbnails[torch.from_numpy(order)])


def _bits(grey: Tensor, down: tuple[float, float], across: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Bool [N, 64] each: the difference hash and the cosine hash of a view of grey pictures [N, HASHED, HASHED]."""
    rows, columns = sampling(HASHED, *down), sampling(HASHED, *across)
    cells = (_cells(8) @ rows) @ grey @ (_cells(9) @ columns).T
    waves = (_cosines() @ rows) @ grey @ (_cosines() @ columns).T
    flat = waves.flatten(1)
    return (cells[:, :, 1:] > cells[:, :, :-1] + STEP).flatten(1), flat > flat[:, 1:].median(1, keepdim=True).values


def _cells(count: int) -> Tensor:
    """[count, HASHED]: means over that many neighbouring parts."""
    return F.interpolate(torch.eye(HASHED)[:, None], count, mode="area")[:, 0].T


def _cosines() -> Tensor:
    """[8, HASHED]: the lowest frequencies of the discrete cosine transform."""
    places = (torch.arange(HASHED) + 0.5) * math.pi / HASHED
    return torch.cos(torch.arange(8)[:, None] * places)


def _packed(bits: np.ndarray) -> np.ndarray:
    """Bool [..., 64] as uint64."""
    return np.ascontiguousarray(np.packbits(bits, axis=-1)).view(">u8")[..., 0].astype(np.uint64)
