"""benchmark.html: models side by side on every set, with intervals, as a table and as bars, in one file without
scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.evaluation.metrics import percent
from equipoise.io.atomic import write_text
from equipoise.io.figures import SERIES, style, svg
from equipoise.reports.page import page
from equipoise.reports.shift_clouds import ShiftCloud, cloud_chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "benchmark.html"
COUNTS = ("_queries",)
PLAIN = ("spearman", "rsum")  # metrics that are no shares


@dataclass(frozen=True)
class Cell:
    """The numbers of one model on one set."""

    metrics: Mapping[str, float]
    intervals: Mapping[str, Sequence[float]]
    chance: Mapping[str, float]
    main: str

    @property
    def value(self) -> float:
        return self.metrics[self.main]

    @property
    def ends(self) -> tuple[float, float]:
        low, high = self.intervals.get(self.main, (self.value, self.value))
        return low, high

    @property
    def shown(self) -> str:
        """The main metric with its interval."""
        low, high = self.ends
        return f"{percent(self.value)} ({100 * low:.1f} to {100 * high:.1f})"


@dataclass(frozen=True)
class ShiftTable:
    """Accuracy on a set and its shifts, as it is printed."""

    of: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    fits: str  # how well the lines through baselines fit; empty where there are none
    clouds: Sequence[ShiftCloud] = ()  # pictures of baselines, models and lines


Cells = Mapping[tuple[str, str], Cell]  # by set and model


def write_benchmark(
    path: Path,
    models: Sequence[str],
    sets: Mapping[str, str],
    cells: Cells,
    averages: Mapping[str, Sequence[float]],
    shifted: Sequence[ShiftTable] = (),
) -> Path:
    """Write the page; `sets` has the task of each set by its name."""
    filled: dict[str, Any] = {
        "models": list(models),
        "main": _main_table(models, sets, cells, averages),
        "shifted": [(one, [cloud_chart(cloud) for cloud in one.clouds]) for one in shifted],
        "bars": _bars(models, sets, cells),
        "details": {name: _details(name, models, cells) for name in sets},
    }
    write_text(path, page(PAGE, **filled))
    return path


def _main_table(models: Sequence[str], sets: Mapping[str, str], cells: Cells, averages: Any) -> list[Any]:
    rows = []
    for name, task in sets.items():
        several = [cells[name, model] for model in models]
        best = max(cell.value for cell in several)
        guess = several[0].chance.get(several[0].main)
        shown = [(cell.shown, len(several) > 1 and cell.value == best) for cell in several]
        rows.append((name, task, several[0].main, shown, "" if guess is None else percent(guess)))
    rows += [
        (f"mean of {task}", task, "", [(percent(value), False) for value in values], "")
        for task, values in averages.items()
    ]
    return rows


def _details(name: str, models: Sequence[str], cells: Cells) -> list[tuple[str, list[str]]]:
    several = [cells[name, model] for model in models]
    keys = [key for key in several[0].metrics if not key.endswith(COUNTS) and "_retrieval_recall@" not in key]
    return [(key, [_number(key, cell) for cell in several]) for key in keys]


def _number(key: str, cell: Cell) -> str:
    value = cell.metrics.get(key)
    if value is None:
        return ""
    return f"{value:.3f}" if any(word in key for word in PLAIN) else percent(value)


def _bars(models: Sequence[str], sets: Mapping[str, str], cells: Cells) -> list[dict[str, Any]]:
    from markupsafe import Markup

    charts = []
    for task in dict.fromkeys(sets.values()):
        names = [name for name, of in sets.items() if of == task]
        title = f"{task}: {cells[names[0], models[0]].main}"
        charts.append({"title": title, "svg": Markup(svg(_chart(models, names, cells), f"Bars: {title}"))})
    return charts


def _chart(models: Sequence[str], names: Sequence[str], cells: Cells) -> Figure:
    """Bars of each set, one a model, with intervals; a line at what guessing scores."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(8, 0.9 + 0.24 * len(names) * (len(models) + 1)), layout="constrained")
        axes = figure.subplots()
        for place, name in enumerate(names):
            for number, model in enumerate(models):
                cell = cells[name, model]
                height = place + (number - (len(models) - 1) / 2) * 0.8 / len(models)
                colour = SERIES[number % len(SERIES)]
                label = model if not place else None
                alpha = 1.0 if number < len(SERIES) else 0.5
                axes.barh(height, 100 * cell.value, 0.72 / len(models), color=colour, alpha=alpha, label=label)
                axes.plot([100 * end for end in cell.ends], [height, height], color="#3c4450", linewidth=1)
            guess = cells[name, models[0]].chance.get(cells[name, models[0]].main)
            if guess is not None:
                axes.plot([100 * guess] * 2, [place - 0.45, place + 0.45], color="#3c4450", linestyle=":", linewidth=1)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("%, with 95% intervals; dotted: guessing")
        axes.legend(loc="lower right")
    return figure
