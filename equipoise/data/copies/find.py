"""Which pictures are copies of one another.

    exact   the same pixels, as they were read
    near    a view of one and the other have hashes that differ in few bits, and thumbnails that correlate as they
            are, without what is smooth in them (the same things in the same places) and in their colours alone

The similarity of a near copy is the lowest of the three correlations. Where a picture is near to more than a few others
(shirts on white), likeness says little, and only pairs that are `SURE` are taken. Small details are not seen: two shots
of one moment are near copies, and so are two products that differ in a button.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from equipoise.data.copies.candidates import sharing_a_band
from equipoise.data.copies.signature import HASHES, Signatures
from equipoise.data.copies.views import VIEWS, view

DIFFERENT_BITS, MOST_BITS = 22, 256  # of the 128 of both hashes that may differ; more than can
NEAREST = 8  # others compared with each picture under each view, those with the fewest different bits
SIMILAR, SURE = 0.75, 0.97
CROWD = 4  # others that are similar to a picture, beyond which they must be sure
SMOOTH = 5  # pixels of a thumbnail
FAINT = 4.0  # levels by which a grey picture may be tinted
AT_ONCE = 8192  # thumbnails compared at once
SET_BITS = np.unpackbits(np.arange(1 << 16, dtype=np.uint16)[:, None].view(np.uint8), axis=1).sum(1, dtype=np.uint8)


@dataclass(frozen=True)
class Copy:
    """Two pictures by their numbers, the first one lower."""

    first: int
    second: int
    similarity: float  # 1 where they are exact
    exact: bool


def find_copies(signatures: Signatures) -> list[Copy]:
    """Exact copies first, then near ones, the most alike first; of several exact ones, each with the first of them."""
    pairs, similarity = _near(signatures)
    exact = _exact(signatures.digests)
    known = {(copy.first, copy.second) for copy in exact}
    twin = {copy.second for copy in exact}  # what is near to it is near to the first of its kind
    near = [
        Copy(first, second, score, exact=False)
        for (first, second), score in zip(pairs.tolist(), similarity.tolist(), strict=True)
        if (first, second) not in known and first not in twin and second not in twin
    ]
    return exact + sorted(near, key=lambda copy: (-copy.similarity, copy.first, copy.second))


def _exact(digests: np.ndarray) -> list[Copy]:
    first: dict[bytes, int] = {}
    places = ((first.setdefault(bytes(digest), number), number) for number, digest in enumerate(digests))
    return [Copy(one, number, 1.0, exact=True) for one, number in places if one != number]


def _near(signatures: Signatures) -> tuple[np.ndarray, np.ndarray]:
    """Pairs [P, 2] with the first one lower, each once, and their similarities [P]."""
    pairs, scores = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0)]
    for number in range(len(VIEWS)):
        found = _alike_under(signatures, number)
        similarity = _similarities(signatures.thumbnails, found, number)
        pairs.append(np.sort(found[similarity >= SIMILAR], axis=1))
        scores.append(similarity[similarity >= SIMILAR])
    every, best = np.concatenate(pairs), np.concatenate(scores)
    order = np.lexsort((-best, every[:, 1], every[:, 0]))
    every, best = every[order], best[order]
    first = np.append(True, (every[1:] != every[:-1]).any(axis=1))[: len(every)]  # the best of its kind
    unique, similarity = every[first], best[first]
    partners = np.bincount(unique.ravel(), minlength=len(signatures))
    clear = (partners[unique].max(axis=1, initial=0) <= CROWD) | (similarity >= SURE)
    return unique[clear], similarity[clear]


def _count_bits(words: np.ndarray) -> np.ndarray:
    """Bits that are set in 64-bit words [N], sixteen at a time by a table."""
    parts = np.ascontiguousarray(words, dtype=np.uint64).view(np.uint16)
    return SET_BITS[parts].reshape(-1, 4).sum(axis=1, dtype=np.uint8)


count_bits = getattr(np, "bitwise_count", _count_bits)  # numpy 1 has none


def _alike_under(signatures: Signatures, number: int) -> np.ndarray:
    """Pairs [P, 2]: pictures whose hashes are near those of a view of another one."""
    count, whole, seen = max(len(signatures), 1), signatures.hashes[0], signatures.hashes[number]
    found = [np.zeros(0, dtype=np.int64)]
    for kind in range(HASHES):
        for one, other in sharing_a_band(whole[kind], seen[kind]):
            bits = sum(count_bits(whole[way][one] ^ seen[way][other]).astype(np.int64) for way in range(HASHES))
            near = (bits <= DIFFERENT_BITS) & (one != other)
            found.append(((one * MOST_BITS + bits) * count + other)[near])
    codes = np.unique(np.concatenate(found))  # by picture, then by bits
    one, other = codes // (MOST_BITS * count), codes % count
    rank = np.arange(len(one)) - np.searchsorted(one, np.arange(count))[one]
    return np.stack([one, other], axis=1)[rank < NEAREST]


def _similarities(thumbnails: Tensor, pairs: np.ndarray, number: int) -> np.ndarray:
    """Of the first picture of each pair with the view of the second [P], the lowest of what was looked at: a pair that
    is not `SIMILAR` at one look is spared the others."""
    found = np.zeros(len(pairs))
    for start in range(0, len(pairs), AT_ONCE):
        first, second = torch.from_numpy(pairs[start : start + AT_ONCE]).T
        one, other = thumbnails[first].float(), view(thumbnails[second].float(), number)
        lowest, left = _correlation(one, other), torch.arange(len(one))
        for look in (_same_colours, _same_details):
            still = lowest[left] >= SIMILAR
            one, other, left = one[still], other[still], left[still]
            lowest[left] = torch.minimum(lowest[left], look(one, other))
        found[start : start + AT_ONCE] = lowest.double().numpy()
    return found


def _correlation(one: Tensor, other: Tensor) -> Tensor:
    """[P]; 0 where one of them is flat."""
    first, second = (part.flatten(1) - part.flatten(1).mean(1, keepdim=True) for part in (one, other))
    return F.cosine_similarity(first, second, dim=1, eps=1e-3)


def _same_details(one: Tensor, other: Tensor) -> Tensor:
    return _correlation(_detail(one), _detail(other))


def _detail(pictures: Tensor) -> Tensor:
    """The pictures without what is smooth in them."""
    places = torch.arange(pictures.shape[-1])
    near = ((places[:, None] - places).abs() <= SMOOTH // 2).float()
    mean = near / near.sum(1, keepdim=True)
    return pictures - mean @ pictures @ mean.T


def _same_colours(one: Tensor, other: Tensor) -> Tensor:
    """[P]: the cosine of what is left without grey; 1 of two grey pictures, near 0 of a grey one and one in colours."""
    first, second = ((part - part.mean(1, keepdim=True)).flatten(1) for part in (one, other))
    faint = FAINT**2 * first.shape[1]
    lengths = ((first * first).sum(1) + faint) * ((second * second).sum(1) + faint)
    return ((first * second).sum(1) + faint) / lengths.sqrt()
