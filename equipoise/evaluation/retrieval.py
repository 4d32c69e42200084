"""Retrieval both ways: given an image find its texts, given a text find its image.

Two kinds of truth. The *labelled* pairs (`image_of_text`) give the usual numbers of the field:

    R@k = share of queries with a labelled match among the first k ("any hit": one of several captions is enough)

The *many-to-many* truth (`relevance`), where it is known, gives numbers that do not punish a model for finding a match
nobody labelled. For a query with R relevant items, rel(i) = 1 if the i-th item is relevant and P(i) = precision at i:

    mAP@R       = 1/R Σ_{i=1..R} P(i) rel(i)      Musgrave et al. 2020, "A Metric Learning Reality Check"
    R-Precision = P(R)                            Chun et al. 2022, "ECCV Caption", reports both
    true_R@1    = share of queries whose first item is relevant

Ties are broken against the model: an irrelevant item comes before every relevant one of equal similarity. A model that
gives every pair the same similarity scores 0, never 100%. Queries without a match are left out; `..._queries` counts
those that remain. Values are fractions in [0, 1]; `rsum`, the sum of the six R@k, is in percentage points (up to 600).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from equipoise.types import UserError

RECALLS = (1, 5, 10)
DIRECTIONS = ("image_to_text", "text_to_image")
LARGEST_BLOCK = 2**23  # similarities held at once, whatever `chunk` says: 32 MiB in float32

Similarity = Callable[[Tensor, Tensor], Tensor]
Relevance = np.ndarray | Tensor


@torch.no_grad()
def retrieval(
    images: Tensor,
    texts: Tensor,
    similarity: Similarity,
    image_of_text: Tensor,
    relevance: Relevance | None = None,
    chunk: int = 1024,
) -> dict[str, float]:
    """Retrieval numbers of `images` [N, d] and `texts` [M, d].

    `image_of_text` [M] is the number of each text's labelled image, `relevance` [N, M] bool the many-to-many truth.
    `similarity` is always called with images first. At most `chunk` queries are compared with all candidates at once,
    fewer where the candidates are very many, so memory stays linear in N + M.
    """
    image_of_text = torch.as_tensor(image_of_text).to(images.device)
    _check(images, texts, image_of_text, relevance)
    images, texts = at_least_float32(images), at_least_float32(texts)
    numbers: dict[str, float] = {}
    for direction in DIRECTIONS:
        by_text = direction == "text_to_image"
        first, precise = [], []
        for rows in _slices(*((len(texts), len(images)) if by_text else (len(images), len(texts))), chunk):
            scores = similarity(images, texts[rows]).T if by_text else similarity(images[rows], texts)
            _check_finite(scores)
            first.append(first_position(scores, _labelled(image_of_text, len(images), rows, by_text)))
            if relevance is not None:
                precise.append(ranked_precision(scores, _relevant(relevance, rows, by_text).to(scores.device)))
        numbers |= _recalls(direction, torch.cat(first))
        if precise:
            numbers |= _precisions(direction, torch.cat(precise))
    return numbers | sums(numbers)


def first_position(scores: Tensor, relevant: Tensor) -> Tensor:
    """Place of the best relevant item in each row, from 1; 0 in a row that has none."""
    best = scores.masked_fill(~relevant, -torch.inf).amax(dim=1, keepdim=True)
    before = (scores.masked_fill(relevant, -torch.inf) >= best).sum(dim=1)
    return torch.where(relevant.any(dim=1), before + 1, 0)


def ranked_precision(scores: Tensor, relevant: Tensor) -> Tensor:
    """For each row that has a relevant item: average precision at R, precision at R, whether the first is relevant."""
    kept = relevant.any(dim=1)
    scores, relevant = scores[kept], relevant[kept]
    if not len(scores):
        return scores.new_zeros(0, 3, dtype=torch.float64)
    counts = relevant.sum(dim=1, keepdim=True)
    longest = int(counts.max())
    hits = scores.masked_fill(~relevant, -torch.inf).topk(longest, dim=1).values
    misses = scores.masked_fill(relevant, -torch.inf).topk(longest, dim=1).values
    # The i-th hit stands behind i - 1 hits and every miss that is as close; more than R misses put it past R anyway.
    before = torch.searchsorted(-misses, -hits, right=True)
    order = torch.arange(1, longest + 1, device=scores.device)
    position = before + order
    within = position <= counts
    average = (within * (order / position.double())).sum(dim=1, keepdim=True) / counts
    return torch.cat([average, within.sum(dim=1, keepdim=True) / counts.double(), position[:, :1] == 1], dim=1)


def sums(numbers: Mapping[str, float]) -> dict[str, float]:
    """`mean_recall` and `rsum` of the six R@k."""
    recalls = [numbers[f"{direction}_R@{k}"] for direction in DIRECTIONS for k in RECALLS]
    return {"mean_recall": sum(recalls) / len(recalls), "rsum": 100 * sum(recalls)}


def _recalls(direction: str, first: Tensor) -> dict[str, float]:
    first = first[first > 0]
    recalls = {f"{direction}_R@{k}": (first <= k).double().mean().item() for k in RECALLS}
    return recalls | {f"{direction}_queries": float(len(first))}


def _precisions(direction: str, precise: Tensor) -> dict[str, float]:
    names = (f"{direction}_mAP@R", f"{direction}_R-Precision", f"{direction}_true_R@1")
    values = precise.mean(dim=0).tolist() if len(precise) else ()
    return dict(zip(names, values, strict=False)) | {f"{direction}_true_queries": float(len(precise))}


def _slices(queries: int, candidates: int, chunk: int) -> Iterator[slice]:
    step = max(1, min(chunk, LARGEST_BLOCK // candidates))
    for start in range(0, queries, step):
        yield slice(start, min(start + step, queries))


def _labelled(image_of_text: Tensor, images: int, rows: slice, by_text: bool) -> Tensor:
    numbers = torch.arange(images, device=image_of_text.device)
    return image_of_text[rows, None] == numbers if by_text else numbers[rows, None] == image_of_text


def _relevant(relevance: Relevance, rows: slice, by_text: bool) -> Tensor:
    block = relevance[:, rows].T if by_text else relevance[rows]
    return block.bool() if isinstance(block, Tensor) else torch.from_numpy(np.array(block, dtype=bool))


def at_least_float32(points: Tensor) -> Tensor:
    """Half precision makes ties out of items that differ."""
    return points if points.dtype == torch.float64 else points.float()


def _check(images: Tensor, texts: Tensor, image_of_text: Tensor, relevance: Relevance | None) -> None:
    if not len(images) or not len(texts):
        raise UserError(
            f"retrieval needs images and texts, got {len(images)} and {len(texts)}: check the data's split."
        )
    if image_of_text.shape != (len(texts),) or image_of_text.min() < 0 or image_of_text.max() >= len(images):
        raise UserError(
            f"image_of_text must hold one number from 0 to {len(images) - 1} for each of the {len(texts)} texts."
        )
    if relevance is not None and tuple(relevance.shape) != (len(images), len(texts)):
        raise UserError(
            f"relevance has shape {tuple(relevance.shape)}, but there are {len(images)} images and {len(texts)} texts: "
            "give one row an image and one column a text."
        )


def _check_finite(scores: Tensor) -> None:
    if not all(torch.isfinite(extreme) for extreme in scores.aminmax()):
        raise UserError("some similarities are not finite, so no ranking exists: look for NaN in the model's weights.")
