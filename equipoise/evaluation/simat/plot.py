"""The SIMAT score over λ, by what is replaced: where λ was chosen, and where it is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from equipoise.evaluation.simat.sweep import SimatSweep
from equipoise.io.figures import INK, SERIES, captioned_figure, panel_title, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = "so^D"  # so that colour is not all that tells the lines apart


def draw_simat(found: Mapping[str, SimatSweep], place: int | None, finding: str) -> Figure:
    """`place` is that of the λ that is reported, where one could be chosen."""
    with style():
        figure = captioned_figure(
            "A picture plus the difference of two words", finding, width=4.2 * len(found) + 0.6, height=4.1
        )
        panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        for axes, (split, one) in zip(panels, found.items(), strict=True):
            for number, field in enumerate(one.chance):
                heights = [scores[field].score for scores in one.scores]
                colour = INK if field == "all" else SERIES[(number - 1) % len(SERIES)]
                axes.plot(one.lambdas, heights, color=colour, marker=MARKS[number % len(MARKS)], markersize=4,
                          linewidth=2.2 if field == "all" else 1.3, label=field)  # fmt: skip
            axes.axhline(one.chance["all"].score, color=INK, linewidth=1, linestyle=(0, (3, 2)), label="any picture")
            if place is not None:
                axes.axvline(one.lambdas[place], color=INK, linewidth=0.8, alpha=0.5)
            panel_title(axes, f"{split}, {one.chance['all'].questions:,} transformations")
            axes.set_xlabel("λ, how far along the words")
            axes.set_ylim(bottom=0)
        panels[0].set_ylabel("SIMAT score")
        panels[-1].legend(loc="upper right", fontsize=8)
    return figure
