"""m²- and m³-Mix beside another loss (`objectives/mixup/m3mix.py`).

λ is drawn anew for each batch that is trained with, the same on every rank (`run_position.py`). The scale of m² is a
constant here, as in the authors' scripts, or the model's (`m2_scale = 0`): a loss that learned one would need a place
in the optimizer. Weights fall with the epoch, as in the paper, where `epoch_steps` is given.
"""

from __future__ import annotations

from typing import Unpack

from equipoise.losses.base import objective_of
from equipoise.losses.pair_loss import PairLoss, Settings
from equipoise.objectives import M3Mix, Objective
from equipoise.objectives.mixup.m2mix import READINGS


class M3MixLoss(PairLoss):
    def __init__(
        self,
        *,
        of: str | Objective | PairLoss = "clip",
        m2_weight: float = 0.02,
        v_weight: float = 0.05,
        l_weight: float = 0.05,
        vl_weight: float = 0.1,
        m2_alpha: float = 0.5,
        alpha: float = 2.0,
        m2_scale: float = 1 / 0.07,
        reading: str = READINGS[0],
        original_negatives: bool = True,
        impl: str = "auto",
        **settings: Unpack[Settings],
    ):
        objective = M3Mix(
            m2_weight=m2_weight,
            v_weight=v_weight,
            l_weight=l_weight,
            vl_weight=vl_weight,
            per_epoch=bool(settings.get("epoch_steps")),
            m2_alpha=(m2_alpha, m2_alpha),
            alpha=(alpha, alpha),
            m2_scale=m2_scale,
            m2_scale_learned=False,
            impl=impl,
            of=objective_of(of),  # type: ignore[arg-type]
            reading=reading,
            original_negatives=original_negatives,
        )
        super().__init__(objective, **settings)


class M2MixLoss(M3MixLoss):
    """m² alone: negatives between image and text."""

    def __init__(
        self,
        weight: float = 0.1,
        *,
        of: str | Objective | PairLoss = "clip",
        m2_alpha: float = 0.5,
        m2_scale: float = 1 / 0.07,
        reading: str = READINGS[0],
        impl: str = "auto",
        **settings: Unpack[Settings],
    ):
        super().__init__(
            of=of,
            m2_weight=weight,
            v_weight=0.0,
            l_weight=0.0,
            vl_weight=0.0,
            m2_alpha=m2_alpha,
            m2_scale=m2_scale,
            reading=reading,
            impl=impl,
            **settings,
        )
