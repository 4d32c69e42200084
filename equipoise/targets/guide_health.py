"""What a guide knows: the precondition of softened targets, as numbers for the log.

Of the guide's softmax p_ij, by row for images and by column for texts, each a mean over samples:

    match       p_ii, what the guide leaves to the sample itself; near 1 the softened target is the hard one
    beta        β (1 - p_ii), what really goes to others: the effective β
    negatives   exp(entropy of p_i without p_ii, renormalised): as many others share it as if evenly; near N - 1 the
                guide tells nobody from anybody
    auc         the chance that a pair which is truly alike scores above one that is not, by the truth that the data
                has (the same things in scenes, the same label); 1/2 is a guide that knows nothing

A guide can be far too sharp as well: where samples are the same to it (two pictures of a person to a detector), no
scale leaves `match_share` to each, and the largest there is makes its scores of others differ by thousands of nats.

*Do not* read `negatives` near N - 1 as a fault of the guide alone: a small scale flattens any guide
(`guide.match_share` sets it).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equipoise.data.side_data import THINGS
from equipoise.targets.guide_scale import ROWS
from equipoise.targets.target import Gather
from equipoise.types import Batch

if TYPE_CHECKING:
    from equipoise.targets.softened import SoftenedBy, Weighted

SPREAD = "spread"  # of scores, to warn by
ALIKE = (THINGS, "label")  # side data with a number per sample, equal for samples that are truly alike
ALL_BUT_ONE, FLAT, BLIND = 0.99, 0.95, 0.55  # p_ii, negatives / (N - 1), AUC
TOO_SHARP = 100.0  # nats: standard deviation of a guide's scores of others
PAIRS = 20  # that are alike, at least, for an AUC to say anything
AFTER = 0.1  # share of a run in which a guide that is trained with the model may know nothing


@torch.no_grad()
def guide_facts(target: SoftenedBy, batch: Batch | None, gather: Gather | None = None) -> dict[str, float]:
    """The numbers of both sides by the names they are logged under; warns where a guide knows nothing.

    Where `target` and `batch` are one rank's shard, `gather` makes them the whole batch's, the same on all ranks.
    """
    alike, rows, cols = _truth(batch), target.rows, target.cols
    if gather is not None:
        rows, cols = (tuple((weight, guide.gathered(gather)) for weight, guide in side) for side in (rows, cols))
        alike = None if alike is None else gather(alike)
    found = {
        f"guide/{name}_{side}": value
        for side, guides, by_col in (("image", rows, False), ("text", cols, True))
        for name, value in _health(guides, target.beta, alike, by_col).items()
    }
    progress = 1.0 if batch is None else batch.moment.progress
    if found and (progress >= AFTER or not _is_trained(target)):
        _warn(found, len(rows[0][1].left))
    return {name: value for name, value in found.items() if SPREAD not in name}


def _health(guides: Weighted, beta: float, alike: Tensor | None, by_col: bool) -> dict[str, float]:
    total = len(guides[0][1].left)
    some, every = range(min(ROWS, total)), range(total)
    blocks = (weight * (guide.block(every, some).T if by_col else guide.block(some, every)) for weight, guide in guides)
    scores = torch.stack(list(blocks)).sum(0).double()
    rows = torch.ones(len(scores), dtype=torch.bool, device=scores.device)
    for _, guide in guides:
        if guide.known is not None:
            rows &= guide.known[: len(scores)].to(rows.device)
    if total < 2 or not bool(rows.any()):
        return {}
    itself = torch.eye(len(scores), total, dtype=torch.bool, device=scores.device)
    match = float(scores.softmax(1)[itself][rows].mean())
    logs = scores.masked_fill(itself, -torch.inf).log_softmax(1).masked_fill(itself, 0)
    entropy = -(logs.exp().masked_fill(itself, 0) * logs).sum(1)
    found = {"match": match, "beta": beta * (1 - match), "negatives": float(entropy[rows].exp().mean())}
    found[SPREAD] = float(scores[rows][~itself[rows]].reshape(int(rows.sum()), total - 1).std(1, unbiased=False).mean())
    truth = None if alike is None else (alike[: len(scores), None] == alike)[rows] & ~itself[rows]
    if truth is not None and int(truth.sum()) >= PAIRS:
        found["auc"] = auc(scores[rows][~itself[rows]], truth[~itself[rows]])
    return found


def auc(scores: Tensor, positive: Tensor) -> float:
    """The chance that a positive scores above a negative [M], ties counting half."""
    negatives = scores[~positive].sort().values
    if not len(negatives) or len(negatives) == len(scores):
        return 0.5
    of = scores[positive]
    below, up_to = (torch.searchsorted(negatives, of, right=right) for right in (False, True))
    return float((below + up_to).double().mean() / (2 * len(negatives)))


def _truth(batch: Batch | None) -> Tensor | None:
    return None if batch is None else next((batch.side[name] for name in ALIKE if name in batch.side), None)


def _is_trained(target: SoftenedBy) -> bool:
    return any(guide.trained for _, guide in (*target.rows, *target.cols))


def _warn(found: Mapping[str, float], samples: int) -> None:
    """One sentence for each kind of ignorance: Python shows an equal one once."""
    for side in ("image", "text"):
        match, negatives = found.get(f"guide/match_{side}"), found.get(f"guide/negatives_{side}")
        if match is None or negatives is None:
            continue
        if found.get(f"guide/{SPREAD}_{side}", 0.0) > TOO_SHARP:
            _say(side, "cannot leave what it should to the match, for others are the same to it", "set guide.scale")
        elif match > ALL_BUT_ONE:
            _say(side, "leaves more than 99% to the match itself, so that nothing is softened")
        elif negatives > FLAT * (samples - 1) and samples > 2:
            _say(side, "gives all others the same, so that it tells nobody from anybody")
        elif found.get(f"guide/auc_{side}", 1.0) < BLIND:
            _say(side, "does not score pairs that are truly alike above others")


def _say(side: str, what: str, instead: str = "set its scale by guide.match_share") -> None:
    warnings.warn(f"the {side}s' guide {what} (guide/* in metrics.jsonl); {instead}, or choose another", stacklevel=5)
