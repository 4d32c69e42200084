"""App. B as a picture: what class tokens add, by the estimate and as measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from equipoise.analysis.cost import Cost
from equipoise.analysis.plots.figure import heading, page
from equipoise.reports.plots import SERIES, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = {  # label: field, colour, line
    "multiply-adds, estimate": ("estimated_macs", SERIES[0], (0, (4, 2))),
    "multiply-adds, measured": ("measured_macs", SERIES[0], "-"),
    "activations, estimate": ("estimated_activations", SERIES[1], (0, (4, 2))),
    "activations, measured": ("measured_activations", SERIES[1], "-"),
    "time of a training step, measured": ("seconds_training", SERIES[2], "-"),
}


def added(costs: Sequence[Cost], field: str) -> list[float]:
    """How much more than with one class token, as a share."""
    return [getattr(cost, field) / getattr(costs[0], field) - 1 for cost in costs]


def draw_cost(towers: Mapping[str, Sequence[Cost]], finding: str) -> Figure:
    """`towers` by name, each with its costs by number of class tokens, the first with 1."""
    with style():
        figure = page("What class tokens cost", finding, height=4.2)
        panels = figure.subplots(1, len(towers), squeeze=False)[0]
        for axes, (name, costs) in zip(panels, towers.items(), strict=True):
            _panel(axes, costs)
            heading(axes, f"{name.capitalize()} tower, {costs[0].tokens} tokens with one class token")
        panels[0].set_ylabel("more than with one class token")
        panels[0].legend(loc="upper left")
    return figure


def _panel(axes: Axes, costs: Sequence[Cost]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log", base=2)
    counts = [cost.class_tokens for cost in costs]
    for label, (field, colour, line) in LINES.items():
        ring = {"markersize": 8, "markerfacecolor": "none"} if field.startswith("estimated") else {"markersize": 3.5}
        axes.plot(counts, added(costs, field), color=colour, linestyle=line, label=label, marker="o", **ring)  # type: ignore[arg-type]
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:+.0f}%"))
    axes.set_xlabel("class tokens")
