"""How many questions are answered right, by kind of answer: the probe beside what needs no picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from equipoise.evaluation.vqa.protocol import ByKind
from equipoise.io.figures import INK, SERIES, captioned_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 0.8  # of the bars of one kind together
BEHIND = {"facecolor": "white", "linewidth": 0, "alpha": 0.8, "pad": 0.6}  # numbers, where the line of guessing passes


def draw_vqa(found: Mapping[str, ByKind], chance: Mapping[str, float], finding: str) -> Figure:
    """`found` by who answers; `chance` where it is known."""
    from matplotlib.ticker import FuncFormatter

    kinds = list(next(iter(found.values())))
    with style():
        figure = captioned_figure("Questions about pictures", finding, width=7.5, height=4.2)
        axes = figure.subplots()
        wide = WIDTH / len(found)
        for row, (name, by_kind) in enumerate(found.items()):
            places = [number - WIDTH / 2 + (row + 0.5) * wide for number in range(len(kinds))]
            means, errors = ([getattr(by_kind[kind], part) for kind in kinds] for part in ("right", "error"))
            axes.bar(places, means, 0.94 * wide, yerr=errors, color=SERIES[row], label=name, ecolor=INK, capsize=2)
            for place, mean, error in zip(places, means, errors, strict=True):
                axes.annotate(f"{100 * mean:.1f}", (place, mean + error), (0, 2), textcoords="offset points",
                              ha="center", fontsize=8, bbox=BEHIND)  # fmt: skip
        for number, kind in enumerate(kinds):
            if kind in chance:
                axes.hlines(chance[kind], number - WIDTH / 2, number + WIDTH / 2, color=INK, linewidth=1.2,
                            linestyle=(0, (3, 2)), label="" if number else "guessing")  # fmt: skip
        counts = [one.questions for one in next(iter(found.values())).values()]
        axes.set_xticks(range(len(kinds)), [f"{k}\n{n:,} questions" for k, n in zip(kinds, counts, strict=True)])
        axes.grid(visible=False, axis="x")
        axes.set_ylim(0, 1.12)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f}%"))
        axes.set_ylabel("accuracy (VQA's rule)")
        axes.legend(loc="upper right", ncols=len(found) + 1)
    return figure
