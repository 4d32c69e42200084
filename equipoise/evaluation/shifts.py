"""Shifts: accuracy on the further test sets of a few-shot run, and the mean over them.

acc1_<set>       zero-shot accuracy on that set, among the classes it has
acc1_shifted     the mean over all sets, each weighing the same
"""

from __future__ import annotations

from equipoise.data.few_shot import SHIFTED, ClassSet
from equipoise.data.source import Source
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.metrics import Metric
from equipoise.evaluation.zeroshot import ZeroShot

PREFIX = "acc1_"


class Shifts(Evaluator):
    """Classifies each further test set of few-shot data, and averages the accuracies."""

    task = ZeroShot.task

    def describe(self, name: str) -> Metric | None:
        if not name.startswith(PREFIX):
            return None
        shift = name.removeprefix(PREFIX).replace("_", " ")
        return Metric(f"accuracy, {shift}", f"Share of images whose class comes first, of the test set: {shift}.")

    def applies(self, source: Source) -> bool:
        return isinstance(source, ClassSet) and bool(source.shifts)

    def __call__(self, encoded: Encoded) -> EvalResult:
        assert isinstance(encoded.source, ClassSet)
        sets = {
            name: ZeroShot()(Encoded(encoded.model, shifted, encoded.settings))
            for name, shifted in encoded.source.shifts.items()
        }
        metrics = {f"{PREFIX}{name}": result.metrics["acc1"] for name, result in sets.items()}
        chance = {f"{PREFIX}{name}": result.chance["acc1"] for name, result in sets.items()}
        for numbers in (metrics, chance):
            numbers[f"{PREFIX}{SHIFTED}"] = sum(numbers.values()) / len(numbers)
        return EvalResult(metrics, chance)
