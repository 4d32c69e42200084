"""Table 11 as a picture: accuracy over the number of tokens kept, every subset a dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.analysis.plots.figure import page
from equipoise.analysis.token_ablation import Subsets
from equipoise.reports.plots import INK, SERIES, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_tokens(found: Sequence[Subsets], chance: float, what: str, finding: str) -> Figure:
    """`what` names the accuracy, `chance` is what guessing scores."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    with style():
        figure = page("With some of the class tokens", finding, width=6.5, height=4.0)
        axes = figure.subplots()
        axes.set_xscale("log", base=2)
        for one in found:
            axes.plot(
                [one.tokens] * len(one.accuracies), one.accuracies, "o", color=SERIES[0], alpha=0.25, markersize=4
            )
        counts, means = [one.tokens for one in found], [one.mean for one in found]
        axes.errorbar(counts, means, [one.deviation for one in found], color=SERIES[0], capsize=3, marker="o",
                      markersize=6, label="mean ± standard deviation")  # fmt: skip
        for one in found:
            axes.annotate(f"{100 * one.mean:.1f}", (one.tokens, one.mean), (7, -11), textcoords="offset points")
        axes.axhline(chance, color=INK, linewidth=1, linestyle=(0, (3, 2)), label="guessing")
        axes.xaxis.set_major_locator(FixedLocator(counts))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f}%"))
        axes.set_ylim(bottom=0)
        axes.margins(x=0.09)
        axes.set_xlabel(f"class tokens kept, of {found[-1].tokens}")
        axes.set_ylabel(what)
        axes.legend(loc="upper left")
    return figure
