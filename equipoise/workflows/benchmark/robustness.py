"""The robustness table of a benchmark: accuracy on a set and on its shifts, and effective robustness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from equipoise.data.benchmark_sets import SetSpec
from equipoise.data.benchmark_sets.baseline_accuracies import Accuracies, read_accuracies
from equipoise.evaluation.effective_robustness import BaselineLine, baseline_line
from equipoise.evaluation.metrics import percent
from equipoise.types import UserError

METRIC = "acc1"


@dataclass(frozen=True)
class Robustness:
    """One set with its shifts: accuracies of models [set][model], and lines and effective robustness of each shift."""

    of: str
    shifts: tuple[str, ...]
    models: tuple[str, ...]
    accuracies: Accuracies  # by model, by set; baselines from files among them
    lines: Mapping[str, BaselineLine] = field(default_factory=dict)  # by shift
    effective: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by model, by shift

    def as_json(self) -> dict[str, Any]:
        return {
            "of": self.of, "shifts": list(self.shifts), "accuracies": self.accuracies,
            "lines": {name: asdict(line) for name, line in self.lines.items()}, "effective": self.effective,
        }  # fmt: skip

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
        accuracies, pictures = _accuracies(cells, (of, *shifts))
        known = {label: accuracies[label] for label in baselines} | {
            model: dict(some) for model, some in published.items() if of in some
        }
        lines = {name: _line(known, of, name, pictures) for name in shifts} if baselines or published else {}
        effective = {
            label: {
                name: line.effective(accuracies[label][of], accuracies[label][name], pictures[of])
                for name, line in lines.items()
            }
            for label in labels
        }  # fmt: skip
        found.append(Robustness(of, shifts, tuple(labels), {**known, **accuracies}, lines, effective if lines else {}))
    return found


def _line(known: Accuracies, of: str, shift: str, pictures: Mapping[str, int]) -> BaselineLine:
    pairs = [(some[of], some[shift]) for some in known.values() if shift in some]
    try:
        return baseline_line(pairs, pictures[of], pictures[shift])
    except UserError as error:
        raise UserError(f"{of} and {shift}: {error}") from None


def _accuracies(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[Accuracies, dict[str, int]]:
    accuracies, pictures = Accuracies(), dict[str, int]()
    for cell in cells:
        if cell["dataset"] in names:
            accuracies.setdefault(cell["equipoise"]["label"], {})[cell["dataset"]] = cell["metrics"][METRIC]
            pictures[cell["dataset"]] = int(cell["equipoise"]["pictures"])
    return accuracies, pictures
