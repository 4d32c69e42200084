"""Copies among records that are features already: images whose features are the same, or nearly so.

    cos(x_i - m, x_j - m) ≥ 0.85

x_i the features of image i (the mean of its real tokens, where it has several), m their mean over all images, without
which features that are nowhere below 0 (after a ReLU) are all alike. Of 6,000 photographs of Flickr8k
(EfficientNet-Lite0) two pairs are as near, the same photograph and two shots of one scene; the nearest that show
different things have 0.81.

Every pair is compared, in tiles and in the leading principal components alone: unit vectors are never further apart in
some of their components than in all, so that nothing is missed, and few pairs are left to be compared in full. Where
many are, one product of the tile's images in full goes before. An image that more than `CROWD` others are near to is of
a kind (shirts on white); its near copies are not named. Work grows with the square of the number of images: minutes for
`MOST` of them, beyond which exact copies alone are looked for.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from equipoise.data.copies.find import Copy
from equipoise.data.copies.partners import Partners
from equipoise.data.source import FeatureSource

ALIKE = 0.85
COMPONENTS = 128  # of photographs' 1,280, 252 of 18 million pairs are left to be compared in full
MOST = 400_000  # images that are compared with each other
AT_ONCE, TILE = 4096, 2048  # images read, and compared, at once
MANY = 16_384  # pairs of a tile, each compared by itself, that take as long as one product of all its images
ROUNDING = 1e-3  # in a squared distance


def feature_copies(source: FeatureSource) -> list[Copy]:
    """Exact copies first, then near ones, the most alike first; of several exact ones, each with the first of them."""
    exact, first = _exact(source)
    if len(source) > MOST:
        warnings.warn(
            f"near copies are not looked for among the features of {len(source):,} images, but exact ones: above "
            f"{MOST:,} comparing all with all takes too long; --pictures finds them by the pictures",
            stacklevel=2,
        )
        return exact
    mean = _mean(source)
    near = sorted(_near(source, mean, first), key=lambda copy: (-copy.similarity, copy.first, copy.second))
    return exact + near


def image_vectors(source: FeatureSource, numbers: Tensor | range) -> Tensor:
    """A float32 vector of each image [n, w]: its features, or the mean of its real tokens."""
    values, mask = source.image_features(torch.as_tensor(numbers).tolist())
    if values.ndim == 2:
        return values.float()
    if mask is None:
        return values.float().mean(dim=1)
    return (values.float() * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp_min(1)


def unit_vectors(source: FeatureSource) -> Tensor:
    """[N, w]: features less their mean, of length 1; the cosine of two is their inner product."""
    mean = _mean(source)
    return torch.cat([_units(source, part, mean) for part in _parts(len(source))])


def _units(source: FeatureSource, numbers: Tensor | range, mean: Tensor) -> Tensor:
    return F.normalize(image_vectors(source, numbers) - mean, dim=1)


def _parts(count: int, size: int = AT_ONCE) -> Iterator[range]:
    return (range(start, min(start + size, count)) for start in range(0, count, size))


def _mean(source: FeatureSource) -> Tensor:
    sums = (image_vectors(source, part).double().sum(dim=0) for part in _parts(len(source)))
    return (torch.stack(list(sums)).sum(dim=0) / len(source)).float()


def _exact(source: FeatureSource) -> tuple[list[Copy], Tensor]:
    """Copies of the same numbers, and the images that are the first of their kind."""
    first: dict[bytes, int] = {}
    found = []
    for part in _parts(len(source)):
        for number, row in zip(part, image_vectors(source, part).numpy(), strict=True):
            one = first.setdefault(hashlib.blake2b(row.tobytes(), digest_size=16).digest(), number)
            if one != number:
                found.append(Copy(one, number, 1.0, exact=True))
    return found, torch.tensor(list(first.values()))


def _near(source: FeatureSource, mean: Tensor, first: Tensor) -> Iterator[Copy]:
    """Near copies among the images that are the first of their kind, each pair once."""
    if len(first) < 2:
        return
    leading, partners = _leading(source, mean, first), Partners(len(first))
    for rows in _parts(len(first), TILE):
        for candidates in _candidates(leading, rows):
            left = partners.undecided(*candidates)
            pairs = _nearer(source, mean, first, left) if len(left[0]) > MANY else left
            for one, other in zip(*(places.split(AT_ONCE) for places in pairs), strict=True):
                _compare(source, mean, first, partners.undecided(one, other), partners)
    for (a, b), cosine in partners.pairs():
        yield Copy(int(first[a]), int(first[b]), cosine, exact=False)


def _nearer(source: FeatureSource, mean: Tensor, first: Tensor, pairs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Those of the pairs in a tile that are near, or nearly so, by the product of its images."""
    (rows, row), (columns, column) = (places.unique(return_inverse=True) for places in pairs)
    cosines = _units(source, first[rows], mean) @ _units(source, first[columns], mean).T
    near = cosines[row, column] >= ALIKE - ROUNDING
    return pairs[0][near], pairs[1][near]


def _compare(
    source: FeatureSource, mean: Tensor, first: Tensor, pairs: tuple[Tensor, Tensor], partners: Partners
) -> None:
    """Note those of the pairs, by their places in `first`, that are near in full."""
    one, other = pairs
    cosines = (_units(source, first[one], mean) * _units(source, first[other], mean)).sum(dim=1)
    near = cosines >= ALIKE
    for a, b, cosine in zip(one[near].tolist(), other[near].tolist(), cosines[near].tolist(), strict=True):
        partners.note(a, b, cosine)


def _leading(source: FeatureSource, mean: Tensor, numbers: Tensor) -> Tensor:
    """The leading principal components of unit vectors [n, c]."""
    width = len(mean)
    products = torch.zeros(width, width, dtype=torch.float64)
    for part in numbers.split(AT_ONCE):
        units = _units(source, part, mean)
        products += (units.T @ units).double()
    directions = torch.linalg.eigh(products).eigenvectors[:, -min(COMPONENTS, width) :].float()
    return torch.cat([_units(source, part, mean) @ directions for part in numbers.split(AT_ONCE)])


def _candidates(leading: Tensor, rows: range) -> Iterator[tuple[Tensor, Tensor]]:
    """Places of pairs, the first one lower, whose leading components are no further apart than those of near copies."""
    one = leading[rows.start : rows.stop]
    limit = 2 - 2 * ALIKE + ROUNDING
    for columns in _parts(len(leading), TILE):
        if columns.stop <= rows.start:
            continue
        other = leading[columns.start : columns.stop]
        squares = (one * one).sum(1)[:, None] + (other * other).sum(1) - 2 * one @ other.T
        a, b = (squares <= limit).nonzero(as_tuple=True)
        a, b = a + rows.start, b + columns.start
        yield a[a < b], b[a < b]
