"""The codes both towers share, and what is known of their use.

    active       codes with a share in a sample, on average
    perplexity   exp of the entropy of usage: how many codes it would take if all were used alike
    dead         the part of codes that get less than a thousandth of an even share, from images and texts together
    overlap      Σ_c min(w_c of an image, w_c of its text), on average over pairs: 1 where both use the same codes alike

Usage is a moving average over training batches of what each code gets of the shares. It is a buffer of the model, so
that a run that goes on goes on with it too. Of several processes, it is that of the first one's part of each batch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equipoise.readouts.readout import TOWERS, Shared

DECAY = 0.98  # of usage: a code that is used no more is dead after some 350 batches
DEAD = 1e-3
PAIRS = 64  # that overlap is measured on


class CodeBook(Shared):
    usage: Tensor  # [2, C] by images and by texts

    def __init__(self, size: int, dim: int):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(size, dim))
        self.register_buffer("usage", torch.zeros(len(TOWERS), size))
        self._active: dict[str, Tensor] = {}
        self._pairs: dict[str, Tensor] = {}

    @torch.no_grad()
    def note(self, tower: str, weights: Tensor) -> None:
        """Remember what a training batch used, weights [N, C]."""
        mean = weights.mean(0).to(self.usage)
        usage = self.usage[TOWERS.index(tower)]
        usage.lerp_(mean, 1 - DECAY if bool(usage.any()) else 1.0)
        self._active[tower] = (weights > 0).sum(1).float().mean()
        self._pairs[tower] = weights[-PAIRS:].clone()

    def facts(self) -> dict[str, float]:
        if set(self._pairs) != set(TOWERS):
            return {}
        used = self.usage.double()
        both = used.sum(0) / used.sum()
        image, text = (self._pairs[tower] for tower in TOWERS)
        return {
            **{f"codes/active_{tower}": float(self._active[tower]) for tower in TOWERS},
            **{f"codes/perplexity_{tower}": _perplexity(row) for tower, row in zip(TOWERS, used, strict=True)},
            "codes/dead": float((both < DEAD / len(both)).double().mean()),
            **({"codes/overlap": float(torch.minimum(image, text).sum(1).mean())} if len(image) == len(text) else {}),
        }


def _perplexity(usage: Tensor) -> float:
    shares = usage / usage.sum()
    return float(torch.special.entr(shares).sum().exp())
