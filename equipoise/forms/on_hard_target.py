"""A form on the hard target that a softened one was made of: both kinds of terms in one pass over the pairs.

Gao et al. 2024 (SoftCLIP), Eq. 16: L_CLIP stands beside the softened terms, of the same logits.

    StackedForms((Divergence(), OnHardTarget(CrossEntropy())))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from equipoise.forms.form import Form, Reduction, Statistics
from equipoise.targets import TargetBlock


@dataclass(frozen=True)
class OnHardTarget(Form):
    form: Form  # one that needs no normalizers

    @property
    def reductions(self) -> Mapping[str, Reduction]:  # type: ignore[override]
        return self.form.reductions

    @property
    def divisible(self) -> bool:  # type: ignore[override]
        return self.form.divisible

    @property
    def weighable(self) -> bool:  # type: ignore[override]
        return self.form.weighable

    def partial(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        return self.form.partial(logits, target.hard)

    def finish(self, statistics: Statistics) -> Tensor:
        return self.form.finish(statistics)
