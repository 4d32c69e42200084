"""The states of torch's random generators: saved, restored, and seeded apart on each rank."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from equipoise.data.rng import generator
from equipoise.training.checkpoint.distributed_checkpoint import RANDOM, CheckpointReader
from equipoise.training.distributed.ranks import Ranks


def rng_states(device: torch.device) -> dict[str, Tensor]:
    """The states of the generators this rank draws from, by device type."""
    states = {"cpu": torch.get_rng_state()}
    return states | {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else states


def set_rng_states(stored: CheckpointReader, rank: int, device: torch.device) -> None:
    """Restore what `rng_states` gave on `rank`; warns where the checkpoint has no state of a GPU."""
    torch.set_rng_state(stored.read(f"{RANDOM}{rank}/cpu"))
    if device.type != "cuda":
        return
    if f"{rank}/cuda" in stored.names(RANDOM):
        torch.cuda.set_rng_state(stored.read(f"{RANDOM}{rank}/cuda"), device)
    else:
        warnings.warn("the checkpoint was made without a GPU: the run goes on, but draws other numbers", stacklevel=2)


def seed_by_rank(ranks: Ranks, step: int = 0) -> None:
    """Seed every rank but the first by its number: dropout must not repeat itself across a batch."""
    if not ranks.is_main:
        torch.manual_seed(generator(torch.initial_seed(), "rank", ranks.rank, step).initial_seed())
