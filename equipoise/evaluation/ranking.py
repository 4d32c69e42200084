"""Rankings both ways, images by texts and texts by images, and the numbers that are read off them.

Two kinds of truth. The *labelled* pairs (`image_of_text`) give the usual numbers of the field:

    R@k = share of queries with a labelled match among the first k ("any hit": one of several captions is enough)

The *many-to-many* truth (`relevance`), where it is known, gives numbers that do not punish a model for finding a match
nobody labelled. For a query with R relevant items, rel(i) = 1 if the i-th item is relevant and P(i) = precision at i:

    mAP@R       = 1/R Σ_{i=1..R} P(i) rel(i)      Musgrave et al. 2020, "A Metric Learning Reality Check"
    R-Precision = P(R)                            Chun et al. 2022, "ECCV Caption", reports both
    true_R@1    = share of queries whose first item is relevant

Guessing, a random ranking, is expected to score, for a query with R matches among n candidates:

    R@k          1 − C(n − R, k) / C(n, k)                    no match among k drawn without putting back
    mAP@R        p/R · (H_R + q (R − H_R))                    p = R/n, q = (R − 1)/(n − 1), H_R = Σ_{i=1..R} 1/i
    R-Precision, true_R@1        p

The middle line: rel(i) P(i) = rel(i) (1 + matches before i) / i, and rel(i) = 1 leaves (i − 1) q matches before i.

The many-to-many truth is a matrix of bool, or lists of pairs (`relevance.py`), which may name other queries for each
direction; a query without a relevant item is not asked.

Copies, the same picture or caption again, match what each other match (`copies.py`); `evaluation.copies = "misses"`
takes the labels alone.
Ties are broken against the model: an irrelevant item comes before every relevant one of equal similarity. A model that
gives every pair the same similarity scores 0, never 100%. Queries without a match are left out; `..._queries` counts
those that remain. Values are fractions in [0, 1]; `rsum`, the sum of the six R@k, is in percentage points (up to 600).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from equipoise.evaluation.copies import Copies, Matches
from equipoise.evaluation.encoding import at_least_float32
from equipoise.evaluation.metrics import DIRECTIONS
from equipoise.evaluation.relevance import SparseRelevance
from equipoise.types import UserError

RECALLS = (1, 5, 10)
LARGEST_BLOCK = 2**23  # similarities held at once, whatever `chunk` says: 32 MiB in float32

Similarity = Callable[[Tensor, Tensor], Tensor]
Blocks = Callable[[bool], Iterator[tuple[slice, Tensor]]]  # as `score_blocks`: by texts or by images
Relevance = np.ndarray | Tensor | SparseRelevance


def retrieval(
    images: Tensor,
    texts: Tensor,
    similarity: Similarity,
    image_of_text: Tensor,
    relevance: Relevance | None = None,
    chunk: int = 1024,
    copies: Copies | None = None,
) -> dict[str, float]:
    """Retrieval numbers of `images` [N, d] and `texts` [M, d].

    `image_of_text` [M] is the number of each text's labelled image, `relevance` [N, M] bool the many-to-many truth.
    Where there are `copies`, these match too what the labelled pairs say of each other.
    `similarity` is always called with images first. At most `chunk` queries are compared with all candidates at once,
    fewer where the candidates are very many, so memory stays linear in N + M.
    """
    ranks = rank_queries(images, texts, similarity, image_of_text, relevance, chunk, copies)
    return numbers_of(ranks, judged=relevance is not None)


def numbers_of(ranks: Mapping[str, QueryRanks], judged: bool) -> dict[str, float]:
    """Retrieval numbers by the ranks of every query; `judged`: by relevance too."""
    numbers: dict[str, float] = {}
    for direction in DIRECTIONS:
        numbers |= _recalls(direction, ranks[direction].first)
        if judged:
            numbers |= _precisions(direction, ranks[direction].precise)
    return numbers | sums(numbers)


@dataclass(frozen=True)
class QueryRanks:
    """What a ranking gave each query of one direction."""

    first: Tensor  # [Q] place of the first labelled match, from 1; 0 for a query without one
    precise: Tensor  # [Q, 3] mAP@R, R-Precision and true R@1 of relevance; NaN for a query without a relevant item


@torch.no_grad()
def rank_queries(
    images: Tensor,
    texts: Tensor,
    similarity: Similarity,
    image_of_text: Tensor,
    relevance: Relevance | None = None,
    chunk: int = 1024,
    copies: Copies | None = None,
) -> dict[str, QueryRanks]:
    """The ranks that `retrieval` averages, for each direction; its arguments."""
    image_of_text = torch.as_tensor(image_of_text).to(images.device)
    _check(images, texts, image_of_text, relevance)
    images, texts = at_least_float32(images), at_least_float32(texts)
    matches = Matches(image_of_text, len(images), copies)
    return ranks_of_blocks(partial(score_blocks, images, texts, similarity, chunk=chunk), matches, relevance)


def ranks_of_blocks(blocks: Blocks, matches: Matches, relevance: Relevance | None) -> dict[str, QueryRanks]:
    """The ranks by the scores of all pairs, some queries at a time."""
    ranks = {}
    for direction in DIRECTIONS:
        by_text = direction == "text_to_image"
        first, precise = [], []
        for rows, scores in blocks(by_text):
            _check_finite(scores)
            pairs = matches.pairs(rows, by_text)
            first.append(
                first_position(scores, matches.block(rows, by_text))
                if pairs is None
                else first_of_pairs(scores, *pairs)
            )
            precise.append(_precise_of_all(scores, relevance, rows, by_text))
        ranks[direction] = QueryRanks(torch.cat(first), torch.cat(precise))
    return ranks


def _precise_of_all(scores: Tensor, relevance: Relevance | None, rows: slice, by_text: bool) -> Tensor:
    """`ranked_precision` of every row, NaN where nothing is relevant."""
    found = scores.new_full((len(scores), 3), torch.nan, dtype=torch.float64)
    if relevance is None:
        return found
    if isinstance(relevance, SparseRelevance):
        kept, relevant = (part.to(scores.device) for part in relevance.judged(rows, by_text))
        found[kept] = ranked_precision(scores[kept], relevant)
    else:
        relevant = _relevant(relevance, rows, by_text).to(scores.device)
        found[relevant.any(dim=1)] = ranked_precision(scores, relevant)
    return found


def score_blocks(
    images: Tensor, texts: Tensor, similarity: Similarity, by_text: bool, chunk: int = 1024
) -> Iterator[tuple[slice, Tensor]]:
    """Queries, and their similarities to all candidates [queries, candidates]: some rows at a time. The queries are
    texts, or images."""
    for rows in _slices(*((len(texts), len(images)) if by_text else (len(images), len(texts))), chunk):
        # in the order of queries: every step from here on walks along rows
        yield rows, similarity(images, texts[rows]).T.contiguous() if by_text else similarity(images[rows], texts)


def retrieval_chance(
    images: int, image_of_text: Tensor, relevance: Relevance | None = None, copies: Copies | None = None
) -> dict[str, float]:
    """Expected values of `retrieval` on the same data, by the same names."""
    labels = torch.as_tensor(image_of_text).cpu()
    texts, found = len(labels), Matches(labels, images, copies)
    matches = {"image_to_text": found.counts(by_text=False), "text_to_image": found.counts(by_text=True)}
    candidates = {"image_to_text": texts, "text_to_image": images}
    numbers: dict[str, float] = {}
    for axis, direction in enumerate(DIRECTIONS):
        labelled = matches[direction][matches[direction] > 0]
        for k in RECALLS:
            numbers[f"{direction}_R@{k}"] = float(any_hit(labelled, candidates[direction], k).mean())
        if relevance is None:
            continue
        true = _relevant_counts(relevance, axis)
        if (true := true[true > 0]).size:
            share = float((true / candidates[direction]).mean())
            numbers[f"{direction}_mAP@R"] = float(average_precision(true, candidates[direction]).mean())
            numbers |= {f"{direction}_R-Precision": share, f"{direction}_true_R@1": share}
    return numbers | sums(numbers)


def any_hit(matches: np.ndarray, candidates: int, k: int) -> np.ndarray:
    """Probability that k of `candidates`, drawn at random, hold at least one match."""
    miss = np.ones(len(matches))
    for drawn in range(min(k, candidates)):
        miss *= np.clip((candidates - matches - drawn) / (candidates - drawn), 0, 1)
    return 1 - miss


def average_precision(matches: np.ndarray, candidates: int) -> np.ndarray:
    """Expected average precision at R of a random ranking."""
    harmonic = np.cumsum(1 / np.arange(1, matches.max() + 1))[matches.astype(int) - 1]
    another = (matches - 1) / max(candidates - 1, 1)
    return (harmonic + another * (matches - harmonic)) / candidates


def first_position(scores: Tensor, relevant: Tensor) -> Tensor:
    """Place of the best relevant item in each row, from 1; 0 in a row that has none."""
    best = scores.masked_fill(~relevant, -torch.inf).amax(dim=1, keepdim=True)
    before = (scores.masked_fill(relevant, -torch.inf) >= best).sum(dim=1)
    return torch.where(relevant.any(dim=1), before + 1, 0)


def first_of_pairs(scores: Tensor, rows: Tensor, items: Tensor) -> Tensor:
    """As `first_position`, of matches given as pairs of a row and an item, which takes one walk along the scores."""
    values = scores[rows, items]
    best = scores.new_full((len(scores),), -torch.inf).scatter_reduce(0, rows, values, "amax")
    # of what is as close as the best match, the matches themselves do not stand before it
    own = torch.zeros(len(scores), dtype=torch.long, device=scores.device).index_add_(
        0, rows, (values == best[rows]).long()
    )
    before = torch.count_nonzero(scores >= best[:, None], dim=1) - own
    return torch.where(torch.bincount(rows, minlength=len(scores)) > 0, before + 1, 0)


def ranked_precision(scores: Tensor, relevant: Tensor) -> Tensor:
    """Average precision at R, precision at R and whether the first is relevant, per row that has a relevant item."""
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
    precise = precise[~precise[:, 0].isnan()]
    names = (f"{direction}_mAP@R", f"{direction}_R-Precision", f"{direction}_true_R@1")
    values = precise.mean(dim=0).tolist() if len(precise) else ()
    return dict(zip(names, values, strict=False)) | {f"{direction}_true_queries": float(len(precise))}


def _slices(queries: int, candidates: int, chunk: int) -> Iterator[slice]:
    step = max(1, min(chunk, LARGEST_BLOCK // candidates))
    for start in range(0, queries, step):
        yield slice(start, min(start + step, queries))


def _relevant_counts(relevance: Relevance, axis: int) -> np.ndarray:
    if isinstance(relevance, SparseRelevance):
        return relevance.counts(by_text=axis == 1).astype(float)
    return np.asarray(relevance.sum(1 - axis)).astype(float)


def _relevant(relevance: Relevance, rows: slice, by_text: bool) -> Tensor:
    assert not isinstance(relevance, SparseRelevance)
    block = relevance[:, rows].T if by_text else relevance[rows]
    return block.bool() if isinstance(block, Tensor) else torch.from_numpy(np.array(block, dtype=bool))


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
