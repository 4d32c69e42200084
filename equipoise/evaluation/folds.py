"""Retrieval in folds: a test set cut into parts of equal size, each ranked by itself, and the mean of their numbers.

MSCOCO's 5,000 test images make "COCO 1K", the mean over five folds of 1,000 images with their 5,000 captions, in the
order of Karpathy's file (Faghri et al. 2018, VSE++, §4.2). More candidates make retrieval harder, so numbers of folds
and of the whole set are never compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import torch
from torch import Tensor

from equipoise.evaluation.copies import Copies
from equipoise.evaluation.ranking import QueryRanks, Similarity, rank_queries, retrieval, retrieval_chance
from equipoise.types import UserError


def fold_slices(images: int, folds: int) -> list[slice]:
    """Parts of equal size, in order; raises UserError where there are none."""
    if images % folds:
        raise UserError(f"{images:,} images cannot be cut into {folds} equal folds; choose another evaluation.folds")
    size = images // folds
    return [slice(start, start + size) for start in range(0, images, size)]


def retrieval_in_folds(
    images: Tensor,
    texts: Tensor,
    similarity: Similarity,
    image_of_text: Tensor,
    folds: int,
    chunk: int = 1024,
    copies: Copies | None = None,
) -> dict[str, float]:
    """Means over folds of `retrieval` by labelled pairs; counts of queries are summed."""
    parts = []
    for fold, own in _folds(images, image_of_text, folds):
        owners, same = image_of_text[own] - fold.start, _within(copies, fold, own)
        parts.append(retrieval(images[fold], texts[own], similarity, owners, None, chunk, same))
    return _mean(parts)


def ranks_in_folds(
    images: Tensor, texts: Tensor, similarity: Similarity, image_of_text: Tensor, folds: int, chunk: int = 1024
) -> dict[str, QueryRanks]:
    """Ranks of all queries, each among the candidates of its own fold."""
    found: dict[str, QueryRanks] = {}
    for fold, own in _folds(images, image_of_text, folds):
        ranks = rank_queries(images[fold], texts[own], similarity, image_of_text[own] - fold.start, None, chunk)
        numbers = {"image_to_text": torch.arange(fold.start, fold.stop), "text_to_image": own.cpu()}
        totals = {"image_to_text": len(images), "text_to_image": len(texts)}
        for direction, of_fold in ranks.items():
            whole = found.setdefault(direction, _empty(totals[direction]))
            whole.first[numbers[direction]] = of_fold.first.cpu()
    return found


def chance_in_folds(images: int, image_of_text: Tensor, folds: int, copies: Copies | None = None) -> dict[str, float]:
    """Expected values of `retrieval_in_folds` for a random ranking."""
    owners = torch.as_tensor(image_of_text).cpu()
    parts = [
        retrieval_chance(fold.stop - fold.start, owners[own] - fold.start, None, _within(copies, fold, own))
        for fold, own in _folds(range(images), owners, folds)
    ]
    return _mean(parts)


def _folds(images: Tensor | Sequence[int], image_of_text: Tensor, folds: int) -> list[tuple[slice, Tensor]]:
    """The images of each fold, and the numbers of their texts."""
    return [
        (fold, torch.nonzero((image_of_text >= fold.start) & (image_of_text < fold.stop))[:, 0])
        for fold in fold_slices(len(images), folds)
    ]


def _empty(queries: int) -> QueryRanks:
    return QueryRanks(torch.zeros(queries, dtype=torch.long), torch.full((queries, 3), torch.nan, dtype=torch.float64))


def _within(copies: Copies | None, fold: slice, own: Tensor) -> Copies | None:
    if copies is None:
        return None
    return Copies(copies.images[fold], copies.texts[own.cpu()]) or None


def _mean(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    return {
        name: sum(part[name] for part in parts) if name.endswith("_queries") else mean(part[name] for part in parts)
        for name in parts[0]
    }
