"""A big batch through small memory: loss and gradients of the whole batch, activations of one micro-batch.

Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup" (GradCache), §3.

    1. embed every micro-batch without keeping activations            -> points of the whole batch
    2. loss of the whole batch, differentiated down to the points      -> d loss / d points (cached)
    3. embed every micro-batch again, now differentiating the encoders with its part of the cache

Plain accumulation of micro-batch losses would contrast each sample with its own micro-batch only, and scale the
logit scale's gradient by their number. Random parts of an encoder (patch dropout) draw the same in 3 as in 1; what an
encoder remembers of its batches (batch norm's running statistics) it remembers once: 3 embeds by `again`. What is
common to the batch goes with its last micro-batch, in 1 and in 3: it is made, and differentiated, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import torch
from torch import Tensor

from equipoise.types import COMMON, Batch, Embeddings, Loss

Embed = Callable[[Batch], Embeddings]
LossOf = Callable[[Embeddings], Loss]
NoSync = Callable[[], AbstractContextManager[None]]  # while in it, ranks do not exchange parameter gradients


def cached_backward(
    embed: Embed, loss_of: LossOf, batch: Batch, micro: int, no_sync: NoSync, again: Embed | None = None
) -> Loss:
    """Fill the parameters' gradients as `loss_of(embed(batch)).total.backward()` would; returns that loss."""
    parts, again = list(micro_batches(batch, micro)), again or embed
    states = []
    with torch.no_grad():
        seen = []
        for part in parts:
            states.append(_random_state(batch.index.device))
            seen.append(embed(part).roles())
    leaves = {role: torch.cat([s[role] for s in seen if role in s]).requires_grad_() for role in seen[-1]}
    loss = loss_of(Embeddings.of(leaves))
    loss.total.backward()
    for number, (part, state) in enumerate(zip(parts, states, strict=True)):
        _restore(state, batch.index.device)
        rows = slice(number * micro, number * micro + len(part))
        if number == len(parts) - 1:
            _differentiate(again(part), leaves, rows)
        else:
            with no_sync():
                _differentiate(again(part), leaves, rows)
    return loss


def _differentiate(embeddings: Embeddings, leaves: dict[str, Tensor], rows: slice) -> None:
    whole = {role: leaf.grad for role, leaf in leaves.items() if leaf.grad is not None}  # some only guide
    points = {role: made for role, made in embeddings.roles().items() if role in whole and made.requires_grad}
    grads = [whole[role] if role in COMMON else whole[role][rows] for role in points]
    torch.autograd.backward(list(points.values()), grads)


def micro_batches(batch: Batch, micro: int) -> Iterator[Batch]:
    """Split a batch into parts of `micro` samples; what is common to it goes with the last."""
    for start in range(0, len(batch), micro):
        part = batch.part(slice(start, start + micro))
        yield part if start + micro >= len(batch) else replace(part, common={})


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _restore(state: tuple[Tensor, Tensor | None], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
