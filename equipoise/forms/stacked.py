"""Several forms over the same blocks: each similarity is computed once, the losses are stacked [F]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.forms.form import Form, Reduction, Statistics
from equipoise.targets import Scores, Target, TargetBlock


@dataclass(frozen=True)
class StackedForms(Form):
    forms: tuple[Form, ...]

    @property
    def normalizer_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"{i}/{name}" for i, form in enumerate(self.forms) for name in form.normalizer_names)

    @property
    def reductions(self) -> Mapping[str, Reduction]:  # type: ignore[override]
        return {f"{i}/{name}": rule for i, form in enumerate(self.forms) for name, rule in form.reductions.items()}

    @property
    def divisible(self) -> bool:  # type: ignore[override]
        return all(form.divisible for form in self.forms)

    @property
    def weighable(self) -> bool:  # type: ignore[override]
        return all(form.weighable for form in self.forms)

    def check(self, target: Target) -> None:
        for form in self.forms:
            form.check(target)

    def normalizers(self, logits: Tensor, scores: Scores | None) -> Statistics:
        return _joined([form.normalizers(logits, scores) for form in self.forms])

    def partial(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        parts = enumerate(self.forms)
        return _joined([form.partial(logits, target, normalizers and _part(normalizers, i)) for i, form in parts])

    def finish(self, statistics: Statistics) -> Tensor:
        return torch.stack([form.finish(_part(statistics, i)) for i, form in enumerate(self.forms)])


def _joined(parts: list[Statistics]) -> Statistics:
    rows = {f"{i}/{name}": value for i, part in enumerate(parts) for name, value in part.rows.items()}
    cols = {f"{i}/{name}": value for i, part in enumerate(parts) for name, value in part.cols.items()}
    return Statistics(rows, cols, parts[0].shape)


def _part(whole: Statistics, number: int) -> Statistics:
    prefix = f"{number}/"
    rows, cols = (
        {name.removeprefix(prefix): value for name, value in side.items() if name.startswith(prefix)}
        for side in (whole.rows, whole.cols)
    )
    return Statistics(rows, cols, whole.shape)
