"""Comparison of fine-tuned weights with the start model: the same metrics of the start, of the end, and of the share
of the way that was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from equipoise.evaluation.results import metric
from equipoise.types import UserError

START, TUNED, CHOSEN = "start", "tuned", "chosen"
SHOWN = ("mean_recall", "image_to_text_R@1", "text_to_image_R@1", "acc1",
         "image_to_text_alignment", "text_to_image_alignment", "uniformity", "modality_gap")  # fmt: skip

SHIFT_PREFIX = "acc1_"  # of accuracies on shifted sets


class DidNotHelp(UserError):
    """Raised after fine-tuning that made no model better: all of it is written, and the model is the start model."""

    status = 3


@dataclass(frozen=True)
class Comparison:
    start: str  # the start model, as it was named
    method: str
    metric: str  # by which the share is chosen
    before: float  # of the start model on validation data
    shares: tuple[float, ...]  # of the end
    scores: tuple[float, ...]  # of the weights at these shares, on validation data
    numbers: Mapping[str, Mapping[str, Mapping[str, float]]]  # data -> model -> metric -> value
    left_out: str = ""  # why the start model's own data were not measured

    @property
    def chosen(self) -> float:
        """The share with the highest score, of several the one nearest to the start; 0 where none beats the start."""
        return self.shares[self.scores.index(self.after)] if self.is_better else 0.0

    @property
    def after(self) -> float:
        return max(self.scores)

    @property
    def is_better(self) -> bool:
        return self.after > self.before

    def metrics(self) -> dict[str, float]:
        values = {"before": self.before, "after": self.after, "share": self.chosen}
        return {f"finetuning/{name}": value for name, value in values.items()}

    def rows(self, data: str) -> list[tuple[str, list[str]]]:
        """Rows of the table of one data set: a metric's name and its printed values, one per model."""
        models = self.numbers[data].values()
        shifts = (name for numbers in models for name in numbers if name.startswith(SHIFT_PREFIX))
        names = [name for name in dict.fromkeys((*SHOWN, *shifts)) if all(name in numbers for numbers in models)]
        return [(_label(name), [metric(name).show(numbers[name]) for numbers in models]) for name in names]

    def columns(self, data: str) -> list[str]:
        names = {START: "start", TUNED: "tuned", CHOSEN: f"kept, α = {self.chosen:g}"}
        return [names[model] for model in self.numbers[data]]

    def sentence(self) -> str:
        text = f"{metric(self.metric).short} on validation data: {self.before:.4g} at the start, {self.after:.4g} now"
        return text if self.shares == (1.0,) else f"{text}, at α = {self.chosen:g} of the way from start to end"

    def refusal(self, folder: str) -> str:
        """Error message where nothing is better than the start: what was tried, what is left, what to change."""
        places = "at the end" if self.shares == (1.0,) else f"at the best of {len(self.shares)} places on the way"
        return (
            f"fine-tuning did not help: {metric(self.metric).short} on validation data was {self.before:.4g} at the "
            f"start and {self.after:.4g} {places}, so the model in {folder} is the start model; try a "
            "lower training.learning_rate, more training.steps, or another --method (lora, lp-ft)"
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "chosen": self.chosen, "after": self.after, "is_better": self.is_better}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Comparison:
        values = {name: stored[name] for name in cls.__dataclass_fields__}
        return cls(**{**values, "shares": tuple(stored["shares"]), "scores": tuple(stored["scores"])})


def _label(name: str) -> str:
    known = metric(name)
    return f"{known.direction}  {known.short}".strip()
