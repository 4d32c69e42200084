"""CyCLIP's loss: another, and images that lie to each other as their texts do (`objectives/cyclip.py`)."""

from __future__ import annotations

from typing import Unpack

from equipoise.losses.base import objective_of
from equipoise.losses.pair_loss import PairLoss, Settings
from equipoise.objectives import CyCLIP, Objective


class CyCLIPLoss(PairLoss):
    def __init__(
        self,
        *,
        of: str | Objective | PairLoss = "clip",
        in_modal_weight: float = 0.25,
        cross_modal_weight: float = 0.25,
        impl: str = "auto",
        **settings: Unpack[Settings],
    ):
        super().__init__(CyCLIP(objective_of(of), in_modal_weight, cross_modal_weight, impl), **settings)  # type: ignore[arg-type]
