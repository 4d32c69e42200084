"""The states of torch's random generators: taken, given back, and set apart on each rank."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from equipoise.data.rng import generator
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.stored_tensors import CheckpointReader


def rng_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    return states | {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else states


def set_rng_states(stored: CheckpointReader, part: str, device: torch.device) -> None:
    torch.set_rng_state(stored.read(f"{part}cpu"))
    if device.type != "cuda":
        return
    if "cuda" in stored.names(part):
        torch.cuda.set_rng_state(stored.read(f"{part}cuda"), device)
    else:
        warnings.warn("the checkpoint was made without a GPU: the run goes on, but draws other numbers", stacklevel=2)


def seed_by_rank(ranks: Ranks, step: int = 0) -> None:
    """Every rank but the first draws numbers of its own: dropout must not repeat itself across a batch."""
    if not ranks.is_main:
        torch.manual_seed(generator(torch.initial_seed(), "rank", ranks.rank, step).initial_seed())
