"""P(right) of every caption, from the evidence of the judges.

    P(right) = σ(log r + log((1 - π) / π))

auto:         r is the caption's own, and π that of captions whose siblings are as good (analysis/siblings.py).
per caption:  r is the caption's own.
per image:    log r is the mean over all captions of the image, so that they are kept or dropped together.

gmm:          the split of the field instead, of losses -log r into small and large ones (analysis/gaussian_mixture.py).
Other evidence of the field (analysis/evidence) is taken as it is, or its mean per image.

π is the share of wrong pairs that the judge of the caption's fold read; in a second round it is that of the first, for
judges trained on what was kept are too sure of it (docs/clean.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from equipoise.analysis.decoys import Decoys, still_wrong
from equipoise.analysis.gaussian_mixture import lower_posterior
from equipoise.analysis.noise import NoiseEstimate, pooled
from equipoise.analysis.siblings import read_siblings, right_with_siblings
from equipoise.training.checkpoint.finished_work import NothingToKeep
from equipoise.workflows.audit.report import Verdict

LONGER = "train judges longer (clean.steps)"


@dataclass(frozen=True)
class Evidence:
    """What the judges of one round say of all captions [M], in the order of the data."""

    log_ratio: np.ndarray  # [M]
    owners: np.ndarray  # [M] the number of the caption's record
    fold: np.ndarray  # [N] the fold of each record, which is the number of its judge
    readings: Sequence[NoiseEstimate]  # one per judge
    aurocs: Sequence[float]
    knowing: Sequence[bool]  # whether the judge can tell pairs from shuffled ones
    sizes: Sequence[int]  # records per fold
    scores: np.ndarray | None = None  # [judges, M] by a way of the field, where one was asked for
    decoys: Sequence[Decoys] = ()  # one per judge; none of evidence that is averaged over time

    @classmethod
    def of(cls, verdict: Verdict) -> Evidence:
        fold = np.zeros(sum(verdict.sizes), dtype=np.int64)
        for number, part in enumerate(verdict.parts):
            fold[list(part)] = number
        rest = (verdict.readings, verdict.aurocs, verdict.knowing, verdict.sizes, verdict.scores, verdict.decoys)
        return cls(verdict.log_ratio, verdict.owners, fold, *rest)

    @property
    def share(self) -> float:
        """The share of wrong captions, read by the judges that know something."""
        return self._pooled[0]

    @property
    def interval(self) -> tuple[float, float]:
        return self._pooled[1]

    @property
    def _pooled(self) -> tuple[float, tuple[float, float]]:
        return pooled(self.readings, [size * knows for size, knows in zip(self.sizes, self.knowing, strict=True)])

    @property
    def knows_nothing(self) -> str:
        """What to say where no judge knows anything, so that nothing can be decided; empty where one does."""
        if any(self.knowing):
            return ""
        shown = " and ".join(f"{auroc:.2f}" for auroc in self.aurocs)
        return (
            f"no judge can tell the pairs from shuffled ones (AUROC {shown}, 0.5 is chance), so nothing can be said of "
            "any pair"
        )

    def require_knowledge(self) -> None:
        if self.knows_nothing:
            raise NothingToKeep(
                f"{self.knows_nothing}; {LONGER}, by a better recipe, or on features of a model that was trained "
                "before (equipoise embed; docs/clean.md), or give such a model with --model"
            )

    def split(self, per: str) -> np.ndarray:
        """P(right) [M] as the posterior of the smaller losses, -log r, of two Gaussians a judge; nan as below."""
        return self._by_judge(self.log_ratio, per, lambda _, ratios, __: lower_posterior(-ratios))

    def scored(self, per: str, judge: int | None = None) -> np.ndarray:
        """What the evidence of the field says [M], by all judges of a fold or by one; nan as below."""
        assert self.scores is not None
        scores = self.scores.mean(axis=0) if judge is None else self.scores[judge]
        return self._by_judge(scores, per, lambda _, own, __: own)

    def right(self, per: str, prior: Evidence | None = None) -> np.ndarray:
        """P(right) [M] as float32, nan where the judge knows nothing; π is that of `prior` where it is given."""

        def of(judge: int, ratios: np.ndarray, owners: np.ndarray) -> np.ndarray:
            reading = (prior or self)._reading(judge)
            if per == "auto":
                return right_with_siblings(ratios, owners, reading.share)
            return reading.right(torch.from_numpy(ratios)).numpy()

        return self._by_judge(self.log_ratio, per, of)

    def still_wrong(self, per: str, thresholds: Sequence[float], prior: Evidence) -> np.ndarray | None:
        """How many captions are wrong and have P(right) of at least each threshold; π is that of `prior`. None where
        nothing was asked about captions that are surely wrong."""
        if not self.decoys:
            return None
        counts = np.bincount(self.fold[self.owners], minlength=len(self.sizes))
        total = np.zeros(len(thresholds))
        for judge in (number for number, knows in enumerate(self.knowing) if knows):
            reading, one = prior._reading(judge), self.decoys[judge]
            if per == "auto":
                rows = self.fold[self.owners] == judge
                read = read_siblings(self.log_ratio[rows], self.owners[rows], reading.share)
                right = read.right(one.log_ratio, one.owners)
            else:
                ratios = _image_mean(one.log_ratio, one.owners) if per == "image" else one.log_ratio
                right = reading.right(torch.from_numpy(ratios)).numpy()
            total += still_wrong(right.astype(np.float32), thresholds, reading.share, int(counts[judge]))
        return total

    def _by_judge(
        self, values: np.ndarray, per: str, of: Callable[[int, np.ndarray, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """What `of` makes of the captions of each fold whose judge knows something: its number, values and records;
        nan of those that no judge was asked about."""
        ratios = _image_mean(values, self.owners) if per == "image" else values
        found = np.full(len(ratios), np.nan)
        for judge in (number for number, knows in enumerate(self.knowing) if knows):
            rows = (self.fold[self.owners] == judge) & ~np.isnan(ratios)
            found[rows] = of(judge, ratios[rows], self.owners[rows])
        return found.astype(np.float32)

    def _reading(self, number: int) -> NoiseEstimate:
        """The estimate of a judge, with the share that the others read where it knows nothing."""
        own = self.readings[number]
        return own if self.knowing[number] else replace(own, share=self.share)


def _image_mean(values: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """The mean over all captions of an image, for each of them [M]."""
    return (np.bincount(owners, values) / np.maximum(np.bincount(owners), 1))[owners]
