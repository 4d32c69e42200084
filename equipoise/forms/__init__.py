"""Criteria (forms) that compare similarities with the target, block by block; `kernels` combines the blocks."""

from __future__ import annotations

from equipoise.forms.active_complementary import ActiveComplementary
from equipoise.forms.complementary import Complementary
from equipoise.forms.cross_entropy import CrossEntropy
from equipoise.forms.divergence import DIVERGENCES, Divergence
from equipoise.forms.form import ClosedFormGrad, Form, Statistics
from equipoise.forms.on_hard_target import OnHardTarget
from equipoise.forms.sigmoid import Sigmoid
from equipoise.forms.stacked import StackedForms

FORMS: dict[str, Form | type[Form]] = {
    "cross_entropy": CrossEntropy,
    "kl": Divergence("kl"),
    "symmetric_kl": Divergence("symmetric_kl"),
    "js": Divergence("js"),
    "negatives_kl": Divergence("kl", among="negatives"),
    "negatives_symmetric_kl": Divergence("symmetric_kl", among="negatives"),
    "negatives_js": Divergence("js", among="negatives"),
    "sigmoid": Sigmoid,
    "complementary": Complementary,
    "active_complementary": ActiveComplementary,
}

__all__ = [
    "DIVERGENCES",
    "FORMS",
    "ActiveComplementary",
    "ClosedFormGrad",
    "Complementary",
    "CrossEntropy",
    "Divergence",
    "Form",
    "OnHardTarget",
    "Sigmoid",
    "StackedForms",
    "Statistics",
]
