"""What every evaluation declares and computes. A new one: its file, one line in `EVALUATIONS`, its bibtex entry.

    metrics     name -> Metric: short name, meaning, kind of number
    task        the task of CLIP_benchmark under which its JSON file is read
    cites       keys of references.bib
    applies     whether a source holds the truth it needs
    suits       whether a model has what it measures; all have, unless it says otherwise
    __call__    values by name, and beside each share or points metric what guessing is expected to score

`tests/evaluation/test_evaluators.py` holds every evaluation in the dict to this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from equipoise.data.source import Source
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.metrics import Metric
from equipoise.models.model import Model

TASKS = ("zeroshot_retrieval", "zeroshot_classification", "linear_probe", "captioning")


@dataclass(frozen=True)
class EvalResult:
    """Values of one evaluation by name, beside those of guessing. Without values it is left out."""

    metrics: dict[str, float]
    chance: dict[str, float]
    confusion: np.ndarray | None = None  # [C, C] counts, true class by predicted class
    classes: tuple[str, ...] = field(default=())
    notes: Mapping[str, int | str] = field(default_factory=dict)  # what was ranked, where settings follow the data


class Evaluator(ABC):
    """One evaluation."""

    task: ClassVar[str]  # one of TASKS
    metrics: ClassVar[Mapping[str, Metric]] = MappingProxyType({})
    cites: ClassVar[tuple[str, ...]] = ()

    def describe(self, name: str) -> Metric | None:
        """The metric of that name; None where this evaluation has none. Override where names depend on the data."""
        return self.metrics.get(name)

    def table(self, numbers: Mapping[str, float]) -> tuple[tuple[str, ...], list[tuple[str, ...]]] | None:
        """Head and rows of a table that shows them better than a list; None where a list does."""
        return None

    @abstractmethod
    def applies(self, source: Source) -> bool:
        """Whether the source holds the truth that this evaluation needs."""

    def suits(self, model: Model) -> bool:
        """Whether the model has what this evaluation measures."""
        return True

    @abstractmethod
    def __call__(self, encoded: Encoded) -> EvalResult:
        """Values and chance values of a model on a source that it applies to."""
