"""How many pairs are wrong, read off the equilibrium of logit scale and noise.

A shuffled pair is a draw from p(x)p(y), a right one from p(x, y), and the critic that minimises CLIP's loss is the log
of the ratio of the two (van den Oord et al. 2018, "Representation Learning with Contrastive Predictive Coding", §2.3).
So with pairs the model was not trained on, the similarity of a pair tells how much likelier it is right than shuffled:

    log r = t' s(u, v) - ½ [log mean_k exp(t' s(u, vₖ)) + log mean_l exp(t' s(uₗ, v))],      t' = exp(t)

and if a share π of the pairs is wrong, all of them together have the likelihood

    L(t, π) = mean log((1 - π) r + π)

At π = 0 its maximum over t is the equilibrium of "Learnable temperature and topology" (Eq. 1): wrong pairs pull t down.
Let π go free, and t returns to where right pairs alone would put it; the π that belongs to it is the noise level.
A pair is right with probability (1 - π) r / ((1 - π) r + π).

u, v [N, d], [M, d] points of images and texts; the means run over the pair itself and a pool of other images and texts.
Ours: the papers say that temperature reveals noise but do not read it off. Pairs a model cannot tell from chance count
as wrong, and pairs that are wrong but plausible (one attribute changed) as right: see docs/audit.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from equipoise.types import UserError

Similarity = Callable[[Tensor, Tensor], Tensor]

SAMPLE = 2048  # pairs the reading is taken from, and the pool each is compared with
CHUNK = 512  # rows of the pool compared at once
SCALES = 16  # logit scales tried, then again around the best
SHARES = torch.linspace(0, 1, 401, dtype=torch.float64)
LIKELY = 1.92  # half of the 95 % quantile of χ² with one degree of freedom


@dataclass(frozen=True)
class Pairs:
    """Images [N, d], texts [M, d] and the number of each text's image [M]."""

    images: Tensor
    texts: Tensor
    image_of_text: Tensor

    def sample(self, count: int, seed: int) -> tuple[Pairs, Tensor]:
        """Up to `count` of the texts with their images, and the numbers of those images."""
        chosen = torch.randperm(len(self.texts), generator=torch.Generator().manual_seed(seed))[:count]
        owners, image_of_text = self.image_of_text[chosen].unique(return_inverse=True)
        return Pairs(self.images[owners], self.texts[chosen], image_of_text), owners


@dataclass(frozen=True)
class NoiseEstimate:
    share: float  # π, of pairs that are wrong
    interval: tuple[float, float]  # 95 %, of the sampling of pairs alone
    scale: float  # exp(t) of the right pairs
    scale_as_clean: float  # exp(t) if all pairs counted as right

    def right(self, log_ratios: Tensor) -> Tensor:
        """The probability that each pair is right, by the share that was read."""
        return probability_right(log_ratios, torch.tensor(self.share, dtype=log_ratios.dtype))


def probability_right(log_ratios: Tensor, share: Tensor) -> Tensor:
    """σ(log r + log((1 - π) / π)) of each pair, π one share or one for each; some doubt is left where it is 0 or 1."""
    share = share.clamp(float(SHARES[1]) / 2, 1 - float(SHARES[1]) / 2)
    return torch.sigmoid(log_ratios + torch.log1p(-share) - share.log())


def pooled(readings: Sequence[NoiseEstimate], weights: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """π of several judges, each of pairs of its own, and its 95 % interval; a judge of no weight says nothing.

    π̄ = Σ wⱼ πⱼ,   half = √(mean half² + 1.96² V),   V = k/(k-1) Σ wⱼ² (πⱼ - π̄)²,   Σ wⱼ = 1

    `mean half` is what the sampling of pairs leaves open, V the variance of a weighted mean of k judges that disagree.
    """
    assert any(weights), "of judges that all know nothing there is no share"
    share = np.array([reading.share for reading in readings])
    weight = np.array(weights, dtype=float) / np.sum(weights)
    mean, judges = float(weight @ share), int(np.count_nonzero(weight))
    spread = judges / max(judges - 1, 1) * float(weight**2 @ (share - mean) ** 2)
    low, high = (float(weight @ np.array(ends)) for ends in zip(*(one.interval for one in readings), strict=True))
    half = [float(np.hypot(end - mean, 1.96 * spread**0.5)) for end in (low, high)]
    return mean, (max(mean - half[0], 0.0), min(mean + half[1], 1.0))


def read_noise(points: Pairs, similarity: Similarity, seed: int = 0) -> NoiseEstimate:
    """The share of wrong pairs among `points`, which must not be those the model was trained on."""
    if len(points.images) < 2:
        raise UserError(
            f"the noise level shows in comparisons, and there is only {len(points.images)} image to compare"
        )
    sample, _ = points.sample(SAMPLE, seed)
    unit = similarity(sample.images[:CHUNK], sample.texts[:CHUNK]).double().std().clamp_min(1e-12)
    scales = torch.logspace(-1, 2, SCALES, dtype=torch.float64) / unit
    likelihoods = _likelihoods(sample, similarity, scales)
    best = int(likelihoods.amax(dim=1).argmax())
    finer = torch.logspace(*_around(scales.log10(), best), SCALES, dtype=torch.float64)
    scales = torch.cat([scales, finer])
    likelihoods = torch.cat([likelihoods, _likelihoods(sample, similarity, finer)])
    row, column = divmod(int(likelihoods.argmax()), len(SHARES))
    profile = likelihoods.amax(dim=0)
    likely = SHARES[profile >= profile.max() - LIKELY / len(sample.images)]
    clean = scales[likelihoods[:, 0].argmax()]
    return NoiseEstimate(float(SHARES[column]), (float(likely[0]), float(likely[-1])), float(scales[row]), float(clean))


def log_ratios(points: Pairs, pool: Pairs, same: Tensor, similarity: Similarity, scales: Tensor) -> Tensor:
    """log r of each pair [scales, M], compared with a pool; `same` [N] is the number of each image in it, or -1."""
    return ratios_of(points, sums_over(points, pool, same, similarity, scales), similarity, scales)


def ratios_of(points: Pairs, sums: tuple[LogSums, LogSums], similarity: Similarity, scales: Tensor) -> Tensor:
    """log r of each pair [scales, M], from the sums of its image and of its text over a pool."""
    by_image, by_text = sums
    logit = scales[:, None] * own_similarity(points, similarity)
    means = by_image.of(points.image_of_text).mean_with(logit) + by_text.mean_with(logit)
    return logit - means / 2


@dataclass(frozen=True)
class LogSums:
    """log Σ exp(scale · s) of each query over the candidates that belong to others, and the number of those."""

    sums: Tensor  # [scales, Q]
    counts: Tensor  # [Q]

    def of(self, queries: Tensor) -> LogSums:
        return LogSums(self.sums[:, queries], self.counts[queries])

    def mean(self) -> Tensor:
        return self.sums - self.counts.log()

    def mean_with(self, logit: Tensor) -> Tensor:
        """The log of the mean with one more candidate."""
        return torch.logaddexp(self.sums, logit) - self.counts.log1p()


def sums_over(
    points: Pairs, pool: Pairs, same: Tensor, similarity: Similarity, scales: Tensor
) -> tuple[LogSums, LogSums]:
    """Sums of each image over the texts of the pool, and of each text over its images."""
    by_image = _log_sums(points.images, pool.texts, pool.image_of_text, same, similarity, scales)
    numbers, own = torch.arange(len(pool.images)), same[points.image_of_text]
    return by_image, _log_sums(points.texts, pool.images, numbers, own, lambda a, b: similarity(b, a).T, scales)


def own_similarity(points: Pairs, similarity: Similarity) -> Tensor:
    """The similarity of each text with its own image [M]."""
    parts = []
    for start in range(0, len(points.texts), CHUNK):
        owners = points.image_of_text[start : start + CHUNK]
        images, inverse = owners.unique(return_inverse=True)
        block = similarity(points.images[images], points.texts[start : start + CHUNK])
        parts.append(block[inverse, torch.arange(len(owners))])
    return torch.cat(parts).double()


def _log_sums(
    queries: Tensor, candidates: Tensor, owners: Tensor, same: Tensor, similarity: Similarity, scales: Tensor
) -> LogSums:
    sums, counts = [], []
    for start in range(0, len(queries), CHUNK):
        others = same[start : start + CHUNK, None] != owners
        block = similarity(queries[start : start + CHUNK], candidates).masked_fill(~others, -torch.inf)
        sums.append(torch.stack([(float(scale) * block).logsumexp(dim=1).double() for scale in scales]))
        counts.append(others.sum(dim=1))
    return LogSums(torch.cat(sums, dim=1), torch.cat(counts).double())


def _likelihoods(points: Pairs, similarity: Similarity, scales: Tensor) -> Tensor:
    """L(t, π) [scales, SHARES]."""
    ratios = log_ratios(points, points, torch.arange(len(points.images)), similarity, scales)
    right, wrong = torch.log1p(-SHARES)[:, None], SHARES.log()[:, None]
    return torch.stack([torch.logaddexp(ratio + right, wrong).mean(dim=1) for ratio in ratios])


def _around(exponents: Tensor, best: int) -> tuple[float, float]:
    return float(exponents[max(best - 1, 0)]), float(exponents[min(best + 1, len(exponents) - 1)])
