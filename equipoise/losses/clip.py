"""CLIP's and SigLIP's losses: every image against every text of the batch (`objectives/clip.py`).

On a sphere they are open_clip's `ClipLoss` and `SigLipLoss`; the space, the target and the form may be exchanged. A
target that compares samples is handed what it compares by keyword: `CLIPLoss(target="duplicates")(..., caption=ids)`.
"""

from __future__ import annotations

from typing import Unpack

from equipoise.forms import Form, Sigmoid
from equipoise.losses.pair_loss import PairLoss, Settings
from equipoise.objectives import CLIP
from equipoise.targets import Target


class CLIPLoss(PairLoss):
    """The mean of both directions' cross-entropies. A logit_bias changes nothing, as in any softmax."""

    def __init__(
        self,
        *,
        target: str | Target = "one_hot",
        form: str | Form = "cross_entropy",
        impl: str = "auto",
        **settings: Unpack[Settings],
    ):
        super().__init__(CLIP(target, form, impl), **settings)  # type: ignore[arg-type]


class SigLIPLoss(PairLoss):
    """Every pair judged on its own (`forms/sigmoid.py`); without a logit_bias it is 0."""

    def __init__(self, *, target: str | Target = "one_hot", impl: str = "auto", **settings: Unpack[Settings]):
        super().__init__(CLIP(target, Sigmoid(learned=True), impl), **settings)  # type: ignore[arg-type]
