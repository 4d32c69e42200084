"""The picture of a sweep: the metric over the values of the first key, a line for each combination of the others."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from equipoise.evaluation.results import metric as known_metric
from equipoise.io.figures import SERIES, SERIES_STYLES, captioned_figure, style
from equipoise.workflows.sweep.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE = "sweep.png"
MOST_LINES = 12  # as many as can be told apart


def draw_sweep(results: Results, caption: str) -> Figure:
    """Points are seeds, lines go through their means."""
    share = known_metric(results.metric).is_share
    key = results.trials[0].values[0][0]
    values = list(dict.fromkeys(combination[0][1] for combination in results.combinations))
    others = list(dict.fromkeys(combination[1:] for combination in results.combinations))
    with style():
        figure = captioned_figure(f"{results.metric} on validation", caption)
        axes = figure.add_subplot()
        for number, rest in enumerate(others[:MOST_LINES]):
            found = {place: results.found(((key, value), *rest)) for place, value in enumerate(values)}
            found = {place: [100 * one if share else one for one in seeds] for place, seeds in found.items() if seeds}
            colour, dashes = SERIES[number % len(SERIES)], SERIES_STYLES[(number // len(SERIES)) % len(SERIES_STYLES)]
            label = ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in rest)
            axes.plot(list(found), [mean(seeds) for seeds in found.values()], color=colour, linestyle=dashes,
                      marker="o", markersize=4, label=label)  # fmt: skip
            points = [(place, one) for place, seeds in found.items() for one in seeds]
            axes.scatter([place for place, _ in points], [one for _, one in points], color=colour, s=8, alpha=0.5)
        axes.set_xticks(range(len(values)), values)
        axes.set_xlabel(key)
        axes.set_ylabel(f"{results.metric}{' (%)' if share else ''}")
        if len(others) > 1:
            axes.legend(fontsize=7.5)
    return figure
