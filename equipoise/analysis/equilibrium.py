"""Equilibrium: the logit scale at which pulling positives together balances pushing negatives apart.

Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", §2.1, Eq. 1 and Fig. 1.

    r_i(τ) = e^{τ s(u_i, v_i)} / N_i,      N_i = Σ_{j≠i} e^{τ s(u_i, v_j)} + Σ_{j≠i} e^{τ s(u_j, v_i)}

u, v [n, d] the points of a batch of n pairs; s the space's similarity (the paper's -d); τ = exp(t). The numerator is
the paper's alignment, the denominator its uniformity; the positive itself is no part of the denominator, and both
directions are. The loss of Eq. 1 is E[-log r].

How we read Fig. 1. Its text computes "the ratio ... averaging across all positive pairs"; its caption puts the
equilibrium at "ratio equals 1.0, when the log loss in Eq. (1) becomes 0.0", which is exact for one pair. So

    "ratio"    mean_i r_i, the default: the text taken at its word
    "parts"    mean_i numerator / mean_i denominator, which the closest pairs of the batch decide
    "log"      exp(mean_i log r_i): 1 exactly where the loss of Eq. 1 is 0. A batch has such a scale only if its
               positives are, on average, closer than the closest negatives: a small or noisy batch of a good model

All agree as τ → 0: r = 1 / (2(n-1)). A batch with P% shuffled has round(P n / 100) texts passed on in a ring, so that
none of these keeps its own. As r < 1 there, a sweep that begins with r ≥ 1 began too late: the balance lies below it
(`below`), which is not the same as none. Up to `REPEATS` disjoint batches are averaged, and as many ways to shuffle.
Everything is in float64 and in logarithms; similarities are made tile by tile, and no n × n matrix is kept.

`draw_equilibrium` is Fig. 1: the ratio over the logit scale, for batch sizes and for shares of shuffled texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equipoise.analysis.sampled_pairs import SampledPoints, on_diagonal, tiles
from equipoise.data.rng import generator
from equipoise.io.figures import INK, SERIES, SERIES_STYLES, captioned_figure, panel_title, plain_log_scale, style
from equipoise.spaces import Space
from equipoise.types import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AVERAGES = ("ratio", "parts", "log")
REPEATS = 16
TILE = 512
LOWEST, HIGHEST = 1e-4, 1e2  # of the ratio: what lies beyond is far from the balance
ROOM = 5  # how far to the right of the last balance the logit scale goes on
DECADES = tuple(float(f"{digit}e{power}") for power in range(-5, 6) for digit in (1, 3))


@dataclass(frozen=True)
class Equilibrium:
    """One curve: a batch size, a share of shuffled texts, and where they balance."""

    batch_size: int
    shuffled: float  # in [0, 1]
    log_ratios: list[float]  # natural logarithm of the ratio, one per logit scale
    balance: float | None  # the first logit scale whose ratio is 1; None where no logit scale of the sweep has it
    below: bool = False  # whether the ratio is above 1 where the sweep begins, so that it balances before


def equilibrium(
    points: SampledPoints,
    space: Space,
    scales: Sequence[float],
    batch_size: int,
    shuffled: float,
    average: str,
    seed: int,
) -> Equilibrium:
    """The curve of disjoint batches of `batch_size` pairs, over the logit scales `scales` (rising)."""
    if average not in AVERAGES:
        raise UserError(f"average must be one of {', '.join(AVERAGES)}, not {average!r}")
    if not 2 <= batch_size <= len(points.images):
        raise UserError(f"a batch of {batch_size} needs from 2 to {len(points.images):,} pairs; choose another size")
    if not 0 <= shuffled <= 1:
        raise UserError(f"{100 * shuffled:g}% of the texts cannot be shuffled; choose from 0 to 100")
    parts, batches = [], len(points.images) // batch_size
    for number in range(REPEATS if shuffled else min(REPEATS, batches)):
        start = number % batches * batch_size
        batch = slice(start, start + batch_size)
        texts = points.texts[batch][ring(batch_size, shuffled, seed + number).to(points.texts.device)]
        parts.append(log_parts(points.images[batch], texts, space, scales))
    numerator, denominator = (torch.cat(side, dim=1) for side in zip(*parts, strict=True))
    log_ratios = averaged(numerator, denominator, average).tolist()
    below = log_ratios[0] >= 0
    found = None if below else balance(scales, log_ratios)
    return Equilibrium(batch_size, shuffled, log_ratios, found, below)


@torch.no_grad()
def log_parts(images: Tensor, texts: Tensor, space: Space, scales: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Logarithms of numerator and denominator of Eq. 1 [T, n], for each of T logit scales and n pairs."""
    count = len(images)
    rows = images.new_full((len(scales), count), -torch.inf, dtype=torch.float64)
    cols, own = rows.clone(), rows[0].clone()
    for r, c in tiles(count, count, TILE):
        similarity = space.similarity(images[r], texts[c]).double()
        diagonal = on_diagonal(r, c, similarity.device)
        if diagonal.any():
            own[r] = similarity.diagonal()  # tiles are squares, so a block on the diagonal has its own diagonal there
        similarity.masked_fill_(diagonal, -torch.inf)
        for number, scale in enumerate(scales):
            logits = scale * similarity
            rows[number, r] = torch.logaddexp(rows[number, r], logits.logsumexp(1))
            cols[number, c] = torch.logaddexp(cols[number, c], logits.logsumexp(0))
    return torch.as_tensor(scales, dtype=torch.float64, device=own.device)[:, None] * own, torch.logaddexp(rows, cols)


def averaged(numerator: Tensor, denominator: Tensor, average: str) -> Tensor:
    """The logarithm of the ratio over all pairs [T], of logarithms [T, n]."""
    if average == "log":
        return (numerator - denominator).mean(dim=1)
    if average == "ratio":
        return (numerator - denominator).logsumexp(dim=1) - math.log(numerator.shape[1])
    return numerator.logsumexp(dim=1) - denominator.logsumexp(dim=1)


def balance(scales: Sequence[float], log_ratios: Sequence[float]) -> float | None:
    """Where the ratio first rises to 1, between two logit scales by a straight line over t."""
    for number in range(1, len(scales)):
        before, after = log_ratios[number - 1], log_ratios[number]
        if before < 0 <= after:
            left, right = math.log(scales[number - 1]), math.log(scales[number])
            return math.exp(left - before * (right - left) / (after - before))
    return None


def ring(count: int, share: float, seed: int) -> Tensor:
    """An order of `count` texts in which a share of them, drawn at random, moves on by one among themselves."""
    order, moved = torch.arange(count), round(share * count)
    if moved >= 2:
        chosen = torch.randperm(count, generator=generator(seed, "ring"))[:moved]
        order[chosen] = chosen.roll(1)
    return order


def draw_equilibrium(
    by_size: Sequence[Equilibrium], by_noise: Sequence[Equilibrium], scales: Sequence[float], learned: float,
    finding: str,
) -> Figure:  # fmt: skip
    with style():
        figure = captioned_figure("Where pulling balances pushing", finding)
        left, right = figure.subplots(1, 2, sharex=True, sharey=True)
        _panel(left, by_size, scales, learned, lambda one: f"{one.batch_size:,} pairs")
        panel_title(left, "Larger batches")
        _panel(right, by_noise, scales, learned, lambda one: f"{100 * one.shuffled:g}% shuffled")
        panel_title(right, f"More shuffled texts, {by_noise[0].batch_size:,} pairs")
        left.set_ylabel("alignment / uniformity")
        left.set_xlim(*_limits([*by_size, *by_noise], scales, learned))
        left.set_ylim(LOWEST, HIGHEST)
    return figure


def _limits(curves: Sequence[Equilibrium], scales: Sequence[float], learned: float) -> tuple[float, float]:
    """The logit scales to show: around those that are known, or all of the sweep where no curve has a balance."""
    known = [learned, *(one.balance for one in curves if one.balance is not None)]
    low, high = min(scales), max(scales)
    if len(known) > 1:
        low, high = max(low, min(known) / ROOM**2), min(high, ROOM * max(known))
    return min(low, learned), max(high, learned)


def _panel(
    axes: Axes, curves: Sequence[Equilibrium], scales: Sequence[float], learned: float,
    label: Callable[[Equilibrium], str],
) -> None:  # fmt: skip
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    plain_log_scale(axes, DECADES)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator([1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.axhline(1, color=INK, linewidth=1)
    axes.annotate("balance", (1, 1), (-3, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                  ha="right", fontsize=8.5)  # fmt: skip
    axes.axvline(learned, color=INK, linewidth=1, linestyle=(0, (2, 2)))
    axes.annotate(f"learned {learned:.3g}", (learned, 0.03), (-3, 0), xycoords=("data", "axes fraction"),
                  textcoords="offset points", ha="right", va="bottom", rotation=90, fontsize=8)  # fmt: skip
    for number, one in enumerate(curves):
        colour, dashes = SERIES[number % len(SERIES)], SERIES_STYLES[number % len(SERIES_STYLES)]
        ratios = [math.exp(min(max(value, -50), 50)) for value in one.log_ratios]
        axes.plot(scales, ratios, color=colour, linestyle=dashes, label=label(one))
        if one.balance is not None:
            axes.plot([one.balance], [1], "o", color=colour, markersize=5)
    axes.set_xlabel("logit scale exp(t)")
    axes.legend(loc="lower right")
