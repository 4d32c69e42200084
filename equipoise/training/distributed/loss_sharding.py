"""How several ranks compute the loss of the whole batch: `training.exchange`.

everything   every rank gathers all points and computes the whole loss: any objective, `world` times the work
gathered     every rank gathers all columns and compares its own rows with them (`kernels/sharding/all_gather.py`)
ring         the columns of the others pass by, two parts at a time (`kernels/sharding/ring.py`)
auto         everything where it must be or the batch is small; gathered while the columns are few bytes; else ring
             (`kernels/sharding/strategy.py`)

What auto chooses depends on the settings alone, so that a resumed run chooses the same.
"""

from __future__ import annotations

from equipoise.kernels.sharding.strategy import strategy_for
from equipoise.objectives import Objective
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.settings import DIVIDED, EVERYTHING, Training
from equipoise.types import UserError


def choose_loss_sharding(settings: Training, objective: Objective, ranks: Ranks, dim: int) -> str:
    """How this run shards its loss; `dim` is that of its points. Raises UserError if the setting is impossible."""
    require_possible(settings, objective)
    if ranks.world == 1 or not objective.divisible:
        return EVERYTHING
    if settings.exchange != "auto":
        return settings.exchange
    return strategy_for(settings.batch_size, dim, len(objective.needs) - 1)


def require_possible(settings: Training, objective: Objective) -> None:
    """Raise UserError if `training.exchange` divides an objective that cannot be divided."""
    if settings.exchange in DIVIDED and not objective.divisible:
        raise UserError(
            f"training.exchange is {settings.exchange}, but the objective {type(objective).__name__} (or its target or "
            f"form) cannot be divided among processes; set training.exchange to auto or {EVERYTHING}"
        )
