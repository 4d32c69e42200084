"""SIMAT: is the picture plus the difference of two words the picture with one word changed?

Couairon et al. 2022, "Embedding Arithmetic of Multimodal Queries for Image Retrieval", §3 (the query) and §4 (the
score).

    e_q   = x(source) + λ (t(target) - t(value))                    not normalised again
    found = argmax_{i ≠ source} <e_q, x_i>
    score = 100 Σ_q w_q [oracle(found_q, caption_q) > 0.5] / Σ_q w_q,   w_q = norm2_q^(-1/2)

x [N, d] points of the pictures of the database, t points of bare words, without a prompt; norm2 how many
transformations replace this value, so that a frequent word does not drown the others.

How we differ. The authors look at the first five and take the second where the first is the source; that is the same.
Equal similarities are settled against the model, as in `retrieval.py`: of pictures that are equally close, a wrong one
is found before a right one. Points of the sphere are unit vectors, as published; in any other space they are added and
multiplied as the vectors they are kept as, whatever that space calls similarity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.data.simat_questions import RIGHT, Oracle, Transformation
from equipoise.evaluation.encoding import at_least_float32
from equipoise.types import UserError

LARGEST_TILE = 2**22  # similarities held at once, a few times over


@dataclass(frozen=True)
class Answers:
    """What was found for each transformation at one λ."""

    found: Tensor  # [Q] place in the database
    right: Tensor  # [Q] bool


@dataclass(frozen=True)
class Score:
    score: float  # 0 to 100
    error: float  # its standard error, as if transformations were independent
    questions: int


@torch.no_grad()
def answer(
    pictures: Tensor,
    words: dict[str, Tensor],
    transformations: Sequence[Transformation],
    oracle: Oracle,
    lambdas: Sequence[float],
    tile: int = LARGEST_TILE,
) -> list[Answers]:
    """The answers at each λ. `pictures` [N, d]; `words` the point [d] of each value and target."""
    pictures = at_least_float32(pictures)
    truth = (oracle.scores > RIGHT).to(pictures.device)
    word_points, row = torch.stack([*words.values()]).to(pictures), {word: number for number, word in enumerate(words)}
    answers: list[list[Answers]] = [[] for _ in lambdas]
    for batch in _batches(transformations, max(1, tile // len(pictures))):
        source = torch.tensor([one.source for one in batch], device=pictures.device)
        right = truth[:, [one.caption for one in batch]].T
        removed, added = ([row[getattr(one, name)] for one in batch] for name in ("value", "target"))
        change = word_points[added] - word_points[removed]
        start, along = pictures[source] @ pictures.T, change @ pictures.T
        for kept, lam in zip(answers, lambdas, strict=True):
            closeness = torch.add(start, along, alpha=lam)  # of the query, for the inner product is linear in it
            kept.append(_closest(closeness.scatter_(1, source[:, None], -torch.inf), right))
    return [
        Answers(*(torch.cat([getattr(one, part) for one in kept]) for part in ("found", "right"))) for kept in answers
    ]


def _closest(closeness: Tensor, right: Tensor) -> Answers:
    """The place of each row's largest number; of several, that of a wrong one."""
    largest, found = closeness.max(1)
    if not torch.isfinite(largest).all():
        raise UserError("some similarities are not finite, so nothing can be found: look for NaN in the points")
    ties = ((closeness == largest[:, None]).sum(1) > 1).nonzero()[:, 0]  # few, mostly
    first = closeness[ties] == largest[ties, None]
    wrong = first & ~right[ties]
    found[ties] = torch.where(wrong.any(1, keepdim=True), wrong, first).byte().argmax(1)
    return Answers(found, right.gather(1, found[:, None])[:, 0])


def weights(transformations: Sequence[Transformation]) -> Tensor:
    """norm2^(-1/2) [Q], not yet normalised."""
    return torch.tensor([one.alike for one in transformations], dtype=torch.float64).rsqrt()


def scored(transformations: Sequence[Transformation], right: Tensor) -> dict[str, Score]:
    """Scores of all transformations, and of those of each field."""
    values, w = right.cpu().double(), weights(transformations)
    scores = {"all": _mean(values, w)}
    for field in dict.fromkeys(one.field for one in transformations):
        of_it = torch.tensor([one.field == field for one in transformations])
        scores[field] = _mean(values[of_it], w[of_it])
    return scores


def chance(transformations: Sequence[Transformation], oracle: Oracle) -> dict[str, Score]:
    """Expected scores of finding any picture but the source, each as likely."""
    truth = (oracle.scores > RIGHT).cpu()
    often = truth.sum(0)
    source, caption = (torch.tensor([getattr(one, name) for one in transformations]) for name in ("source", "caption"))
    return scored(transformations, (often[caption] - truth[source, caption].long()).double() / (len(truth) - 1))


def _mean(values: Tensor, w: Tensor) -> Score:
    mean = float((w * values).sum() / w.sum())
    error = math.sqrt(float((w.square() * (values - mean).square()).sum())) / float(w.sum())
    return Score(100 * mean, 100 * error, len(values))


def _batches(transformations: Sequence[Transformation], size: int) -> Iterator[Sequence[Transformation]]:
    return (transformations[start : start + size] for start in range(0, len(transformations), size))
