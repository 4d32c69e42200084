"""The loss that another stands beside, given as a loss, an objective or a name."""

from __future__ import annotations

from equipoise.losses.pair_loss import PairLoss
from equipoise.objectives import Objective, SoftCLIP


def objective_of(of: str | Objective | PairLoss) -> Objective | str:
    """By name, `softclip` is guided by the features themselves, as `SoftCLIPLoss` is."""
    if isinstance(of, PairLoss):
        return of.objective
    return SoftCLIP(guide="image_text") if of == "softclip" else of  # type: ignore[arg-type]
