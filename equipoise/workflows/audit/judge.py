"""Judging pairs by a model that has not been trained on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from equipoise.analysis.auroc import auroc
from equipoise.analysis.decoys import Decoys, compared_with, decoys_of, exchanged, mean_of
from equipoise.analysis.evidence import EVIDENCE, JudgedPairs
from equipoise.analysis.noise import (
    SAMPLE,
    NoiseEstimate,
    Pairs,
    Similarity,
    log_ratios,
    own_similarity,
    pooled,
    ratios_of,
    read_noise,
    sums_over,
)
from equipoise.analysis.noise_by_decoys import many_decoys, with_share_by_decoys
from equipoise.analysis.noise_kinds import fit_elsewhere
from equipoise.data.keep.settings import Reading
from equipoise.data.remap import subset
from equipoise.data.source import Source
from equipoise.models.model import Model
from equipoise.workflows.audit.points import Judge, PointsOf, points_here

CHECKED = 4 * SAMPLE  # captions that a share is read off by decoys again, with further ones shuffled
LEAST_SKILL = 0.03  # AUROC above chance, below which a judge counts as knowing nothing

Score = Callable[[Model, Source, Pairs], Tensor]  # [M] evidence on each text by a way of the field


@dataclass(frozen=True)
class Judgement:
    """One judge's numbers for the texts of a fold, in the order of its images."""

    reading: NoiseEstimate
    check: NoiseEstimate  # the same with a further share of the pairs shuffled
    similarity: Tensor  # [M]
    log_ratio: Tensor  # [M]
    right: Tensor  # [M] the probability that a pair is right
    image_of_text: Tensor  # [M]
    auroc: float  # of pairs against the same pairs shuffled: 0.5 where the judge knows nothing
    knows: bool  # whether that is more than chance
    by_image: Tensor  # [N] log of the mean of exp(scale · similarity) of each image with texts of others
    by_text: Tensor  # [M] of each text with images of others
    fitted: Tensor  # [M] share of images that a text fits alike (`analysis/noise_kinds.py`)
    margin: Tensor  # [M] log r, less that of the image which the text fits best
    decoys: Decoys  # what is said of captions that are surely wrong
    scores: Tensor | None = None  # [judges, M] by a way of the field, where one was asked for

    def fit(self, points: Pairs, similarity: Similarity, images: Tensor, texts: Tensor) -> Tensor:
        """log r of each of these images with each of these texts, whoever they belong to [images, texts]."""
        block = self.reading.scale * similarity(points.images[images], points.texts[texts]).double()
        return block - (self.by_image[images, None] + self.by_text[texts]) / 2


def judge(points: Pairs, model: Model, seed: int, shuffled: float, reading_by: Reading = "likelihood") -> Judgement:
    """Estimate the noise level of the pairs, check it, and give each pair's probability to be right."""
    similarity = model.space.similarity
    reading = read_noise(points, similarity, seed)
    more_wrong = exchanged(points, shuffled, seed)
    check = read_noise(more_wrong, similarity, seed)
    pool, place = pool_of(points, seed)
    scale = torch.tensor([reading.scale], dtype=torch.float64)
    sums = sums_over(points, pool, place, similarity, scale)
    ratios = ratios_of(points, sums, similarity, scale)[0]
    own = own_similarity(points, similarity)
    skill, least = knowledge(points, similarity, reading.scale, seed)
    by_decoys = reading_by == "decoys"
    decoys = (many_decoys if by_decoys else decoys_of)(points, similarity, reading.scale, SAMPLE, seed)
    if by_decoys:
        reading = with_share_by_decoys(reading, ratios.numpy(), points.image_of_text.numpy(), decoys)
        check = _check_by_decoys(check, more_wrong, similarity, scale, decoys, seed)
    by_image, by_text = (part.mean()[0] for part in sums)
    compared = (place >= 0).nonzero().flatten()
    fitted, best = fit_elsewhere(points, compared, similarity, reading.scale, (by_image, by_text))
    right, knows = reading.right(ratios), skill >= least
    told = (own, ratios, right, points.image_of_text, skill, knows, by_image, by_text, fitted, ratios - best)
    return Judgement(reading, check, *told, decoys)


def _check_by_decoys(
    check: NoiseEstimate, more_wrong: Pairs, similarity: Similarity, scale: Tensor, decoys: Decoys, seed: int
) -> NoiseEstimate:
    """The check with its share read by decoys, among a sample of the pairs, at the scale that decoys are judged at."""
    some, numbers = more_wrong.sample(CHECKED, seed)
    pool, place = pool_of(more_wrong, seed)
    ratios = log_ratios(some, pool, place[numbers], similarity, scale)[0]
    return with_share_by_decoys(check, ratios.numpy(), some.image_of_text.numpy(), decoys)


def score_of(evidence: str, seed: int, learning_rate: float) -> Score | None:
    """The evidence of that name, `clean.evidence`; None where it follows from log r."""
    if evidence not in EVIDENCE:
        return None
    return lambda model, source, points: EVIDENCE[evidence](JudgedPairs(model, source, points, seed, learning_rate))


@dataclass(frozen=True)
class JudgedTogether:
    """What several models say of a fold, and the first of them that knows something, with its points."""

    judgement: Judgement
    points: Pairs
    judge: Judge


def judge_together(
    source: Source,
    part: Sequence[int],
    members: Iterable[Judge],
    seed: int,
    shuffled: float,
    score: Score | None = None,
    points_of: PointsOf = points_here,
    reading_by: Reading = "likelihood",
) -> JudgedTogether:
    """One judgement by several models on the records `part` of a source: the mean of what those of them say that know
    something.

    What is said of strangers (`Judgement.fit`) is said by one of them.
    """
    found: list[Judgement] = []
    scores: list[Tensor] = []
    shown: JudgedTogether | None = None
    for member in members:
        points = points_of(member, source, part)
        found.append(judge(points, member.model, seed, shuffled, reading_by))
        scores += [score(member.model, subset(source, part), points)] if score else []
        if shown is None or (found[-1].knows and not shown.judgement.knows):
            shown = JudgedTogether(found[-1], points, member)
    assert shown is not None
    together = found[0] if len(found) == 1 else _mean_of([one for one in found if one.knows] or found)
    return replace(shown, judgement=replace(together, scores=_scores(scores, [one.knows for one in found])))


def _scores(scores: Sequence[Tensor], knowing: Sequence[bool]) -> Tensor | None:
    """One row per judge [judges, M]; that of one which knows nothing is the mean of the others."""
    if not scores:
        return None
    every = torch.stack(list(scores)).double()
    known = torch.tensor([knows or not any(knowing) for knows in knowing])
    return torch.where(known[:, None], every, every[known].mean(0))


def _mean_of(judgements: Sequence[Judgement]) -> Judgement:
    ratios = torch.stack([one.log_ratio for one in judgements]).mean(dim=0)
    reading = _mean_reading([one.reading for one in judgements])
    return replace(
        judgements[0],
        reading=reading,
        check=_mean_reading([one.check for one in judgements]),
        similarity=torch.stack([one.similarity for one in judgements]).mean(dim=0),
        log_ratio=ratios,
        right=reading.right(ratios),
        fitted=torch.stack([one.fitted for one in judgements]).mean(dim=0),
        margin=torch.stack([one.margin for one in judgements]).mean(dim=0),
        auroc=float(np.mean([one.auroc for one in judgements])),
        decoys=mean_of([one.decoys for one in judgements]),
    )


def _mean_reading(readings: Sequence[NoiseEstimate]) -> NoiseEstimate:
    """The mean share, with the logit scales of the first, whose points `Judgement.fit` is about."""
    share, interval = pooled(readings, [1.0] * len(readings))
    return replace(readings[0], share=share, interval=interval)


def knowledge(points: Pairs, similarity: Similarity, scale: float, seed: int) -> tuple[float, float]:
    """AUROC of pairs against the same images with the texts of others, and the least of it that is no chance.

    Wrong pairs among the first pull it towards 0.5, and so does a judge that knows nothing; neither can be judged by.
    """
    some, _ = points.sample(SAMPLE, seed)
    scales, itself = torch.tensor([scale], dtype=torch.float64), torch.arange(len(some.images))
    both = [some, exchanged(some, 1.0, seed)]
    scores = torch.cat([log_ratios(pairs, pairs, itself, similarity, scales)[0] for pairs in both]).numpy()
    count = len(some.texts)
    error = math.sqrt((2 * count + 1) / (12 * count * count))  # of the rank sum, where both are alike
    return auroc(scores, np.arange(2 * count) >= count), 0.5 + max(LEAST_SKILL, 3 * error)


def pool_of(points: Pairs, seed: int) -> tuple[Pairs, Tensor]:
    """A sample of the pairs, to compare all with, and the place of each image in it, or -1."""
    return compared_with(points, SAMPLE, seed)
