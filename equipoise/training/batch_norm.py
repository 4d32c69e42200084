"""Batch norm in training: whose statistics a batch is normalised with, and how often it counts in the running ones.

ranks           our own layers take the statistics of all ranks together, so that their number changes nothing;
                those of imported encoders take their rank's, and the first rank's running ones are kept
micro-batches   each is normalised by itself ("ghost batch norm", Hoffer et al. 2017): the gradients are exact, but of
                another function than that of the whole batch, so a warning says so when the run starts
"""

from __future__ import annotations

import warnings

from torch import nn

from equipoise.encoders.batch_norm import BatchNorm, batch_norms
from equipoise.kernels.sharding.gather import sum_over_ranks
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.settings import Training
from equipoise.types import UserError


def prepare_batch_norm(model: nn.Module, settings: Training, ranks: Ranks) -> None:
    """Join the layers of all ranks; raises UserError for micro-batches too small or too uneven to have statistics."""
    norms = [norm for norm in batch_norms(model) if norm.training]
    if ranks.world > 1:
        for norm in norms:
            if isinstance(norm, BatchNorm):
                norm.total = sum_over_ranks
    each, micro = settings.batch_size // ranks.world, settings.micro_batch
    if not norms or not 0 < micro < each:
        return
    if micro == 1 or each % micro:
        raise UserError(
            f"the model has batch norm, which normalises each micro-batch by itself, so micro_batch must be at least 2 "
            f"and divide the {each} samples of each process, not {micro}; choose another, or 0 for the whole batch"
        )
    warnings.warn(
        f"the model has batch norm, which normalises each micro-batch of {micro} by itself: results depend on "
        "training.micro_batch, as they would not without it",
        stacklevel=2,
    )
