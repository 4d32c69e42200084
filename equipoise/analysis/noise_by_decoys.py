"""The share of wrong pairs, from how many fit as badly as captions that surely are wrong.

Let q be the 30% quantile of log r of decoys (decoys.py), captions of other records that stand for the wrong ones. Of
all captions those below it are a share λ of the wrong ones and a share c of the right ones:

    F(q) = π λ + (1 - π) c        π = (F(q) - c) / (λ - c)

F(q) and λ, which is about 0.3, are counted. c is small, and follows from the judge where its r is the ratio of the
densities of right and wrong captions: c = mean over decoys of r [log r ≤ q]; λ/2 at most, so that a judge who cannot
tell right from wrong reads that all are wrong. With c = 0 it is the reading of true null hypotheses off large p-values
(Storey 2002, "A direct approach to false discovery rates", J. R. Statist. Soc. B 64), which is never too low but for
chance. So r need be right for the captions below q alone, and only as far as c matters, where the likelihood (noise.py)
takes it for right everywhere.

All of it takes wrong captions for those of other records. Captions wrong in one detail fit better than decoys, mostly
lie above q, and are hardly counted, nor does the interval allow for them (docs/audit.md has four runs).

The 95% interval goes up to what c = 0 would read. Its sampling is that of means over images, whose captions go
together: with Fᵢ the captions of image i below q, nᵢ all of them, the variance of F(q) is Σᵢ (Fᵢ - F nᵢ)² / (Σ nᵢ)², so
is that of λ, and Var π = (Var F + π² Var λ) / (λ - c)².
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equipoise.analysis.decoys import Decoys, decoys_of
from equipoise.analysis.noise import NoiseEstimate, Pairs, Similarity

QUANTILE = 0.3  # of the decoys' log r: less is fewer captions to count, more is more of them right
ENOUGH = 16_384  # images with decoys at least, where there are as many
TIMES = 4  # that an image gets those of another one at most


def many_decoys(points: Pairs, similarity: Similarity, scale: float, pool_size: int, seed: int) -> Decoys:
    """Decoys of all images, each several times with those of another one where images are few."""
    times = min(TIMES, -(-ENOUGH // len(points.images)))
    several = [decoys_of(points, similarity, scale, pool_size, seed + number, images=ENOUGH) for number in range(times)]
    owners = [one.owners + number * len(points.images) for number, one in enumerate(several)]
    return Decoys(np.concatenate([one.log_ratio for one in several]), np.concatenate(owners))


def with_share_by_decoys(
    reading: NoiseEstimate, log_ratio: np.ndarray, owners: np.ndarray, decoys: Decoys
) -> NoiseEstimate:
    """The reading with the share by decoys in place of the likelihood's, from log r of captions [M], at the scale of
    the reading, and the numbers of their images [M]."""
    share, interval = share_by_decoys(log_ratio, owners, decoys)
    return replace(reading, share=share, interval=interval)


def share_by_decoys(log_ratio: np.ndarray, owners: np.ndarray, decoys: Decoys) -> tuple[float, tuple[float, float]]:
    """π and its 95% interval."""
    limit = np.quantile(decoys.log_ratio, QUANTILE)
    of_all, spread = _share_below(log_ratio, owners, limit)
    of_wrong, wrong_spread = _share_below(decoys.log_ratio, decoys.owners, limit)
    surely = decoys.log_ratio[decoys.log_ratio <= limit]
    of_right = min(float(np.exp(surely).sum()) / len(decoys.log_ratio), of_wrong / 2)

    def read(c: float) -> tuple[float, float]:
        share = min(max((of_all - c) / (of_wrong - c), 0.0), 1.0)
        return share, 1.96 * float(np.sqrt(spread + share**2 * wrong_spread)) / (of_wrong - c)

    share, half = read(of_right)
    most, half_of_most = read(0.0)
    return share, (max(share - half, 0.0), min(most + half_of_most, 1.0))


def _share_below(values: np.ndarray, owners: np.ndarray, limit: float) -> tuple[float, float]:
    """The share of values up to a limit, and its variance, images being drawn and not captions."""
    below, counts = np.bincount(owners, values <= limit), np.bincount(owners)
    share = float(below.sum() / counts.sum())
    return share, float(((below - share * counts) ** 2).sum() / counts.sum() ** 2)
