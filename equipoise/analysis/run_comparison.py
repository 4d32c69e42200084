"""Runs side by side: the settings in which they differ, and what was measured of each, the best marked.

The best of a metric is its highest value, of metrics that guessing has an expectation of (recalls, accuracies, average
precisions). It is marked only where the runs were tested on the same data; `TRAINING_ONLY` are settings of data that
leave the test split alone. Runs that differ in their seed alone are summed up, as mean and standard deviation.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from equipoise.evaluation.metrics import Metric
from equipoise.evaluation.results import metric
from equipoise.settings.difference import differences

TRAINING_ONLY = tuple(
    f"data.{name}" for name in ("noise.", "train_size", "validation_size", "max_bad", "regions", "detector.", "shots")
)
TESTED_ON = ("data.", "evaluation.captions", "evaluation.features")
NOT_COMPARED = ("name",)
SEED = "seed"
NO_BEST = ("geometry", "logit_scale", "finetuning")  # evaluations whose numbers describe and do not judge


@dataclass(frozen=True)
class StoredRun:
    """What a run's folder holds."""

    folder: str
    settings: Mapping[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)  # by `evaluation/metric`; none of an unfinished run
    records: Sequence[Mapping[str, float]] = ()  # of metrics.jsonl


@dataclass(frozen=True)
class MetricRow:
    name: str  # evaluation/metric
    values: tuple[float | None, ...]  # one per run
    best: tuple[int, ...] = ()  # places of the best among the runs

    @property
    def metric(self) -> Metric:
        return metric(self.name.partition("/")[2])

    def shown(self, place: int) -> str:
        value = self.values[place]
        return "" if value is None else self.metric.show(value)


@dataclass(frozen=True)
class SeedRow:
    """A metric over the seeds of each group: mean and standard deviation (of a sample: n - 1)."""

    name: str  # evaluation/metric
    values: tuple[tuple[float, float] | None, ...]  # one per group; None where a run of it lacks the metric

    def shown(self, place: int) -> str:
        found, known = self.values[place], metric(self.name.partition("/")[2])
        if found is None:
            return ""
        mean, deviation = found
        if known.is_share:
            return f"{100 * mean:.1f} ± {100 * deviation:.1f}%"
        return f"{known.show(mean)} ± {known.show(deviation)}"


@dataclass(frozen=True)
class RunComparison:
    runs: tuple[StoredRun, ...]

    @property
    def settings(self) -> dict[str, tuple[Any, ...]]:
        """The value in each run of every setting that is not the same in all; None where a run has no such setting."""
        first, *others = (run.settings for run in self.runs)
        changed = [differences(first, other) for other in others]
        keys = dict.fromkeys(key for change in changed for key in change if key not in NOT_COMPARED)
        base = {key: change[key][0] for change in changed for key in change}
        return {key: (base[key], *(change.get(key, (None, base[key]))[1] for change in changed)) for key in keys}

    @property
    def other_data(self) -> list[str]:
        """The settings by which the runs were tested on different data."""
        return [key for key in self.settings if key.startswith(TESTED_ON) and not key.startswith(TRAINING_ONLY)]

    @property
    def warning(self) -> str:
        """A sentence where numbers cannot be held against each other; empty where they can."""
        if not self.other_data:
            return ""
        keys = ", ".join(self.other_data[:4]) + (", ..." if len(self.other_data) > 4 else "")
        return f"These runs were tested on different data ({keys}), so that no best is marked."

    @property
    def rows(self) -> list[MetricRow]:
        """All metrics but counts, in the order of the first run that has them."""
        names = dict.fromkeys(name for run in self.runs for name in run.metrics if name != "step")
        found = [MetricRow(name, tuple(run.metrics.get(name) for run in self.runs)) for name in names]
        return [MetricRow(row.name, row.values, self._best(row)) for row in found if not row.metric.is_count]

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """Places of finished runs that differ in their seed alone, two or more in each group."""
        groups: list[list[int]] = []
        for place, run in enumerate(self.runs):
            known = next((group for group in groups if self._is_reseeded(self.runs[group[0]], run)), None)
            if run.metrics and known is not None:
                known.append(place)
            elif run.metrics:
                groups.append([place])
        return [tuple(group) for group in groups if len({self.runs[place].settings.get(SEED) for place in group}) > 1]

    @property
    def over_seeds(self) -> list[SeedRow]:
        """Every metric of the groups, in the order of `rows`."""
        groups = self.groups
        found = [SeedRow(row.name, tuple(_spread(row, group) for group in groups)) for row in self.rows]
        return [row for row in found if any(row.values)]

    def _is_reseeded(self, one: StoredRun, other: StoredRun) -> bool:
        return set(differences(one.settings, other.settings)) <= {SEED, *NOT_COMPARED}

    def _best(self, row: MetricRow) -> tuple[int, ...]:
        values = [value for value in row.values if value is not None]
        judges = row.metric.has_chance and row.name.partition("/")[0] not in NO_BEST
        if self.other_data or not judges or len(values) < 2 or min(values) == max(values):
            return ()
        return tuple(place for place, value in enumerate(row.values) if value == max(values))

    def numbers(self) -> dict[str, Any]:
        return {
            "runs": [run.folder for run in self.runs],
            "settings": {key: list(values) for key, values in self.settings.items()},
            "warning": self.warning,
            "other_data": self.other_data,
            "metrics": {row.name: {"values": list(row.values), "best": list(row.best)} for row in self.rows},
            "seeds": [
                {
                    "runs": [self.runs[place].folder for place in group],
                    "metrics": {row.name: row.values[number] for row in self.over_seeds if row.values[number]},
                }
                for number, group in enumerate(self.groups)
            ],
        }


def _spread(row: MetricRow, group: Sequence[int]) -> tuple[float, float] | None:
    values = [value for place in group if (value := row.values[place]) is not None]
    return (statistics.fmean(values), statistics.stdev(values)) if len(values) == len(group) else None
