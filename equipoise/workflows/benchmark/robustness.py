"""The robustness table of a benchmark: accuracy on a set and on its shifts, and effective robustness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from equipoise.data.benchmark_sets import SetSpec
from equipoise.data.benchmark_sets.baseline_accuracies import Accuracies, read_accuracies
from equipoise.data.benchmark_sets.class_parts import among
from equipoise.evaluation.effective_robustness import BaselineLine, baseline_line, logit
from equipoise.evaluation.metrics import percent
from equipoise.reports.shift_clouds import ShiftCloud
from equipoise.types import UserError

METRIC = "acc1"


@dataclass(frozen=True)
class Robustness:
    """One set with its shifts: accuracies of models [set][model], and lines and effective robustness of each shift."""

    of: str
    shifts: tuple[str, ...]
    models: tuple[str, ...]
    accuracies: Accuracies  # by model, by set; baselines from files among them
    axes: Mapping[str, str]  # by shift: the accuracy that it is held against, `of`'s among all or among its classes
    pictures: Mapping[str, int]  # by set
    baselines: tuple[str, ...] = ()
    lines: Mapping[str, BaselineLine] = field(default_factory=dict)  # by shift
    effective: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by model, by shift

    def as_json(self) -> dict[str, Any]:
        return {
            "of": self.of, "shifts": list(self.shifts), "held_against": self.axes, "accuracies": self.accuracies,
            "lines": {name: asdict(line) for name, line in self.lines.items()}, "effective": self.effective,
        }  # fmt: skip

    def clouds(self) -> list[ShiftCloud]:
        """What the picture of each shift shows; none without baselines."""
        found = []
        for shift, line in self.lines.items():
            axis = self.axes[shift]
            baselines = [model for model in self.baselines if {axis, shift} <= set(self.accuracies[model])]
            points = {model: self._point(model, shift) for model in (*baselines, *self.models)}
            models = {model: points[model] for model in self.models}
            found.append(
                ShiftCloud(axis, shift, models, [points[one] for one in baselines], line.slope, line.intercept)
            )
        return found

    def _point(self, model: str, shift: str) -> tuple[float, float]:
        """In logits."""
        names = (self.axes[shift], shift)
        x, y = (logit(self.accuracies[model][name], self.pictures[name]) for name in names)
        return x, y

    def columns(self) -> list[str]:
        return ["model", self.of, *self.shifts, "mean of shifts", *(["effective"] if self.lines else [])]

    def rows(self) -> list[list[str]]:
        """Printed cells of each model: a shift's accuracy with effective robustness in points, and their means."""
        rows = []
        for model in self.models:
            own, above = self.accuracies[model], self.effective.get(model, {})
            shown = [
                f"{percent(own[name])}{f' ({100 * above[name]:+.1f})' if name in above else ''}" for name in self.shifts
            ]
            means = [percent(sum(own[name] for name in self.shifts) / len(self.shifts))]
            if self.lines:
                means.append(f"{100 * sum(above.values()) / len(above):+.1f}" if above else "")
            rows.append([model, percent(own[self.of]), *shown, *means])
        return rows


def read_baselines(words: Sequence[str], models: Sequence[str]) -> tuple[list[str], Accuracies]:
    """Those of the models that are baselines, and accuracies of others from files."""
    own, published = [], Accuracies()
    for word in words:
        if word in models:
            own.append(word)
        elif word.endswith(".csv"):
            published |= read_accuracies(Path(word))
        else:
            raise UserError(f"--baseline {word} is none of the models that are benchmarked, and no file.csv; name one")
    return own, published


def robustness(
    cells: Sequence[Mapping[str, Any]],
    specs: Mapping[str, SetSpec],
    labels: Sequence[str],
    baselines: Sequence[str] = (),
    published: Mapping[str, Mapping[str, float]] | None = None,
) -> list[Robustness]:
    """A table for each set of which shifts were run too; `baselines` are labels of models."""
    found, published = [], published or {}
    for of in dict.fromkeys(spec.shift_of for spec in specs.values() if spec.shift_of in specs):
        shifts = tuple(name for name, spec in specs.items() if spec.shift_of == of)
        accuracies, pictures = _accuracies(cells, of, shifts)
        axes = {name: among(of, name) if among(of, name) in pictures else of for name in shifts}
        known = {label: accuracies[label] for label in baselines} | {
            model: dict(some) for model, some in published.items() if set(some) & {of, *axes.values()}
        }
        lines = {name: _line(known, axes[name], name, pictures) for name in shifts} if baselines or published else {}
        effective = {
            label: {
                name: line.effective(accuracies[label][axes[name]], accuracies[label][name], pictures[axes[name]])
                for name, line in lines.items()
            }
            for label in labels
        }  # fmt: skip
        found.append(
            Robustness(
                of, shifts, tuple(labels), {**known, **accuracies}, axes, pictures, tuple(known), lines,
                effective if lines else {},
            )
        )  # fmt: skip
    return found


def _line(known: Accuracies, axis: str, shift: str, pictures: Mapping[str, int]) -> BaselineLine:
    pairs = [(some[axis], some[shift]) for some in known.values() if {axis, shift} <= set(some)]
    try:
        return baseline_line(pairs, pictures[axis], pictures[shift])
    except UserError as error:
        of, _, part = axis.partition(":")
        hint = f"; {axis} is the accuracy on {of} among the classes of {part} alone" if part else ""
        raise UserError(f"{axis} and {shift}: {error}{hint}") from None


def _accuracies(
    cells: Sequence[Mapping[str, Any]], of: str, shifts: Sequence[str]
) -> tuple[Accuracies, dict[str, int]]:
    """Accuracies by model and set, and numbers of pictures by set; of `of` also among the classes of shifts."""
    accuracies, pictures = Accuracies(), dict[str, int]()
    for cell in cells:
        name, about, metrics = cell["dataset"], cell["equipoise"], cell["metrics"]
        if name not in (of, *shifts):
            continue
        keys = {name: (METRIC, "pictures")}
        if name == of:
            keys |= {among(of, shift): (among(METRIC, shift), among("pictures", shift)) for shift in shifts}
        own = accuracies.setdefault(about["label"], {})
        for key, (metric, count) in keys.items():
            if metric in metrics:
                own[key], pictures[key] = metrics[metric], int(about[count])
    return accuracies, pictures
