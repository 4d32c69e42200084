"""Images whose captions were all dropped get those of another record that lost its picture, where these fit.

`clean.rematch`: dropping alone can never do better than training on the right pairs that are left. Where captions were
mixed up among the pictures of a set, the right ones are still there. Matched are records of one fold, whose judge has
seen neither, by the mean logit of all captions of a record, sharpened as the records that are kept demand
(`analysis/rematching.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from equipoise.analysis.noise import Pairs
from equipoise.analysis.rematching import Match, rematched
from equipoise.data.keep.file import NO_OTHER, KeepTable
from equipoise.data.source import Source, is_judged
from equipoise.models.model import Model
from equipoise.workflows.audit.judge import Judgement
from equipoise.workflows.audit.run import Look

# P of a match, below which an image stays without captions: at 0.5 two fifths of the new ones were wrong
REMATCH_LEAST = 0.9
SAMPLE = 1024  # records of a fold that all are compared with
AT_ONCE = 1 << 24  # similarities
SHARPNESS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)  # tried: several captions together say more than their mean


@dataclass(frozen=True)
class _Fold:
    """The points of a fold and what its judge made of them."""

    records: np.ndarray  # [N] numbers in the data
    points: Pairs
    model: Model
    judged: Judgement

    def scores(self, images: Tensor, records: Tensor) -> Tensor:
        """Logits of each of these images with the captions of each of these records, on average [images, records]."""
        owners = self.points.image_of_text
        place = torch.full((len(self.records),), -1)
        place[records] = torch.arange(len(records))
        texts = (place[owners] >= 0).nonzero()[:, 0]
        column = place[owners[texts]]
        each = self.model.space.similarity(self.points.images[images], self.points.texts[texts]).double()
        total = each.new_zeros(len(images), len(records)).index_add(1, column, each)
        return self.judged.reading.scale * total / torch.bincount(column, minlength=len(records)).clamp_min(1)

    def matches(self, lost: Tensor, kept: Tensor, least: float) -> list[Match]:
        """Of the records `lost`, compared with some of those that are `kept`; the numbers are places in `lost`."""
        known = kept[torch.linspace(0, len(kept) - 1, min(SAMPLE, len(kept))).long()]
        sharp = sharpness(self.scores(known, known))
        captions = len(self.points.texts) / len(self.records)
        tile = max(1, int(AT_ONCE / (captions * max(len(lost), len(known)))))
        parts = lost.split(tile)
        mean = math.log(len(known))
        of_images = torch.cat([(sharp * self.scores(part, known)).logsumexp(1) for part in parts]) - mean
        of_texts = torch.cat([(sharp * self.scores(known, part)).logsumexp(0) for part in parts]) - mean

        def log_ratios(some: slice) -> Tensor:
            return sharp * self.scores(lost[some], lost) - (of_images[some, None] + of_texts) / 2

        return rematched(log_ratios, len(lost), least, tile)


def sharpness(scores: Tensor) -> float:
    """What to multiply the mean logits of right pairs by [n, n], so that they are likeliest: the scale at which the
    contrastive loss of these records balances."""

    def likelihood(sharp: float) -> float:
        x = sharp * scores
        return float((x.diagonal() - (x.logsumexp(0) + x.logsumexp(1)) / 2).mean())

    return max(SHARPNESS, key=likelihood)


class Rematching:
    """Looks at each fold while its points are at hand; what is dropped is known when all of them are judged."""

    def __init__(self) -> None:
        self.folds: list[_Fold] = []

    def look(self, part: Sequence[int], points: Pairs, model: Model, judged: Judgement) -> None:
        if judged.knows:
            self.folds.append(_Fold(np.array(part), points, model, judged))

    def instead(self, owners: np.ndarray, keep: np.ndarray, least: float) -> np.ndarray:
        """For each caption [M] the number of the one that takes its place, or -1."""
        counts = np.bincount(owners)
        starts = counts.cumsum() - counts
        found, left = np.full(len(owners), NO_OTHER), np.bincount(owners, keep, len(counts))
        for fold in self.folds:
            lost, kept = (
                torch.from_numpy(np.flatnonzero(some[fold.records])) for some in ((left == 0) & (counts > 0), left > 0)
            )
            for image, text, _ in fold.matches(lost, kept, least) if len(lost) and len(kept) else ():
                own, other = (int(fold.records[lost[one]]) for one in (image, text))
                shared = min(counts[own], counts[other])
                found[starts[own] : starts[own] + shared] = np.arange(starts[other], starts[other] + shared)
        return found


def looking(*looks: Look | None) -> Look:
    """All of them, one after the other."""

    def look(part: Sequence[int], points: Pairs, model: Model, judged: Judgement) -> None:
        for one in looks:
            if one:
                one(part, points, model, judged)

    return look


def with_rematched(table: KeepTable, instead: np.ndarray) -> KeepTable:
    """The table with captions in the place of others, which are kept and count in full."""
    taken = instead >= 0
    reasons = [
        f'the captions of "{table.keys[other]}" fit, and take its place' if other >= 0 else why
        for why, other in zip(table.reasons, instead.tolist(), strict=True)
    ]
    weight = np.where(taken, np.float32(1), table.weight)
    return replace(table, keep=table.keep | taken, weight=weight, reasons=reasons, instead=instead)


def rematched_truth(source: Source, owners: np.ndarray, instead: np.ndarray) -> dict[str, float]:
    """How many images were matched anew and, where the data knows, what part of their new captions is wrong."""
    rows = np.flatnonzero(instead >= 0)
    told = {"rematched": float(len(np.unique(owners[rows])))}
    if not len(rows) or not is_judged(source):
        return told
    starts = np.searchsorted(owners, np.arange(owners[-1] + 1))
    true = []
    for record in np.unique(owners[rows]).tolist():
        others = instead[rows[owners[rows] == record]]
        words = [source.pair(int(owners[other])).captions[int(other - starts[owners[other]])] for other in others]
        true += source.relevance([record], words)[0].tolist()
    return {**told, "wrong_among_rematched": float(1 - np.mean(true))}
