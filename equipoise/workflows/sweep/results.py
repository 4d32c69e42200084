"""What a sweep found: every trial, the combinations in their order, and the one that validation likes best.

The metric of a trial is that of the model it ends with, on the validation split. A combination is judged by the mean
over its seeds, among those of which every seed has ended well (where there is none: as many as any has). The test
split has no part in this.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean

from equipoise.evaluation.results import metric as known_metric
from equipoise.io.atomic import write_text
from equipoise.io.json_files import read_json_table
from equipoise.models.folder import METRICS
from equipoise.training.logging.metrics import METRICS_FILE, read_metrics
from equipoise.types import UserError
from equipoise.workflows.sweep.grid import Trial

TRIALS, TABLE = "trials.json", "table.md"
DONE, FAILED = "done", "failed"


@dataclass(frozen=True)
class Result:
    """A trial that has ended."""

    settings: dict[str, str]
    seed: int
    folder: str  # within the sweep's
    status: str
    seconds: float
    validation: float | None = None  # of the model that the run ended with
    best: float | None = None  # of the best checkpoint on its way, and its step
    best_step: int | None = None
    message: str = ""


@dataclass
class Results:
    metric: str
    trials: Sequence[Trial]
    by_name: dict[str, Result] = field(default_factory=dict)

    @property
    def combinations(self) -> list[tuple[tuple[str, str], ...]]:
        return list(dict.fromkeys(trial.values for trial in self.trials))

    def missing(self) -> list[Trial]:
        """What is still to be trained; a trial that failed may fare better now."""
        return [trial for trial in self.trials if not self._is_done(trial)]

    def found(self, values: tuple[tuple[str, str], ...]) -> list[float]:
        """The metric of every seed of a combination that has ended well."""
        ended = [self.by_name.get(trial.name) for trial in self.trials if trial.values == values]
        return [result.validation for result in ended if result and result.validation is not None]

    def ranked(self) -> list[tuple[tuple[str, str], ...]]:
        """The combinations that can be judged, the best first; those that miss a seed come after the others."""
        some = [values for values in self.combinations if self.found(values)]
        return sorted(some, key=lambda values: (-len(self.found(values)), -mean(self.found(values))))

    def failed(self) -> list[Result]:
        ended = (self.by_name.get(trial.name) for trial in self.trials)
        return [result for result in ended if result and result.status == FAILED]

    def shown(self, values: tuple[tuple[str, str], ...]) -> str:
        """Mean, and with several seeds the lowest and the highest."""
        found, show = self.found(values), known_metric(self.metric).show
        if not found:
            return ""
        return show(mean(found)) + (f" ({show(min(found))}–{show(max(found))})" if len(found) > 1 else "")

    def rows(self) -> list[tuple[str, ...]]:
        """A row per combination: values, metric, seeds that ended well, and which did not."""
        ranked = self.ranked()
        others = [values for values in self.combinations if values not in ranked]
        return [
            (*(value for _, value in values), self.shown(values), str(len(self.found(values))), self._faults(values))
            for values in (*ranked, *others)
        ]

    def header(self) -> list[str]:
        return [*(key for key, _ in self.trials[0].values), f"validation {self.metric}", "seeds", ""]

    def _is_done(self, trial: Trial) -> bool:
        result = self.by_name.get(trial.name)
        return result is not None and result.status == DONE

    def _faults(self, values: tuple[tuple[str, str], ...]) -> str:
        ended = [(trial, self.by_name.get(trial.name)) for trial in self.trials if trial.values == values]
        failed = [str(trial.seed) for trial, result in ended if result and result.status == FAILED]
        waiting = sum(result is None for _, result in ended)
        told = [f"failed: seed {', '.join(failed)}"] if failed else []
        return "; ".join([*told, *([f"{waiting} to come"] if waiting else [])])


def read_trial(trial: Trial, folder: Path, root: Path, metric: str, seconds: float, message: str = "") -> Result:
    """What the run in `folder` found; failed with a `message`, or where its metric is none."""
    records = read_metrics(folder / METRICS_FILE) if folder.is_dir() else []
    key = f"validation/{metric}"
    values = [(record[key], int(record["step"])) for record in records if key in record]
    about = (dict(trial.values), trial.seed, str(folder.relative_to(root)))
    if not message and (not values or not math.isfinite(values[-1][0])):
        message = f"{key} is not a number in its {METRICS_FILE}"
    if message:
        return Result(*about, FAILED, seconds, message=message)
    best, step = max(values, key=lambda value: (value[0], -value[1]))
    return Result(*about, DONE, seconds, values[-1][0], best, step)


def on_test(folder: Path, metric: str) -> dict[str, float]:
    """The same metric on the test split, by evaluation; for the chosen trial alone."""
    numbers = read_json_table(folder / METRICS) if (folder / METRICS).is_file() else {}
    return {name: value for name, value in numbers.items() if name.partition("/")[2] == metric}


def read_results(root: Path, metric: str, trials: Sequence[Trial]) -> Results:
    """What is written down in `root` so far of these trials."""
    results = Results(metric, trials)
    if not (root / TRIALS).is_file():
        return results
    stored = read_json_table(root / TRIALS, "choose another folder")
    wanted = {trial.name: trial for trial in trials}
    try:
        for name, entry in stored.get("trials", {}).items():
            if name in wanted and (root / str(entry["folder"])).is_dir():
                results.by_name[name] = Result(**entry)
    except (TypeError, KeyError, AttributeError):
        raise UserError(f"{root / TRIALS}: these are no trials of a sweep; choose another folder") from None
    return results


def write_results(root: Path, results: Results, command: str) -> None:
    """trials.json and table.md, whole or not at all."""
    ranked = results.ranked()
    table = {
        "command": command,
        "metric": f"validation/{results.metric}",
        "chosen": dict(ranked[0]) if ranked else None,
        "trials": {name: asdict(result) for name, result in results.by_name.items()},
    }
    write_text(root / TRIALS, json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    lines = [results.header(), ["---"] * len(results.header()), *results.rows()]
    text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    write_text(root / TABLE, f"{text}\n\n`{command}`\n")
