"""Fig. 1: the ratio of alignment to uniformity over temperature, for batch sizes and for shares of shuffled texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from equipoise.analysis.equilibrium import Equilibrium
from equipoise.analysis.plots.figure import SERIES_STYLES, heading, page, plain_log_scale
from equipoise.reports.plots import INK, SERIES, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOWEST, HIGHEST = 1e-4, 1e2  # of the ratio: what lies beyond is far from the balance
ROOM = 5  # how far to the right of the last balance the temperature goes on


def draw_equilibrium(
    by_size: Sequence[Equilibrium], by_noise: Sequence[Equilibrium], scales: Sequence[float], learned: float,
    finding: str,
) -> Figure:  # fmt: skip
    with style():
        figure = page("Where pulling balances pushing", finding)
        left, right = figure.subplots(1, 2, sharey=True)
        _panel(left, by_size, scales, learned, lambda one: f"{one.batch_size:,} pairs")
        heading(left, "Larger batches")
        _panel(right, by_noise, scales, learned, lambda one: f"{100 * one.shuffled:g}% shuffled")
        heading(right, f"More shuffled texts, {by_noise[0].batch_size:,} pairs")
        left.set_ylabel("alignment / uniformity")
    return figure


def _panel(
    axes: Axes, curves: Sequence[Equilibrium], scales: Sequence[float], learned: float,
    label: Callable[[Equilibrium], str],
) -> None:  # fmt: skip
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    plain_log_scale(axes, (1, 3, 10, 30, 100, 300, 1000))
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
    balances = [one.balance for one in curves if one.balance is not None]
    axes.set_xlim(min(scales), min(max(scales), ROOM * max(learned, *balances)) if balances else max(scales))
    axes.set_ylim(LOWEST, HIGHEST)
    axes.set_xlabel("temperature exp(t)")
    axes.legend(loc="lower right")
