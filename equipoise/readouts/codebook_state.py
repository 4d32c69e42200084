"""The codes that both towers share, and statistics of their usage.

    active       codes with a share in a sample, mean over samples
    perplexity   exp of the entropy of usage: the number of equally used codes of the same entropy
    dead         the fraction of codes that get less than a thousandth of an even share, from images and texts together
    overlap      Σ_c min(w_c of an image, w_c of its text), mean over pairs: 1 where both have the same shares

Usage is a moving average over training batches of each code's mean share. It is a buffer of the model, so
that a resumed run continues it. With several processes it is that of the first one's part of each batch.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from equipoise.ops.recording import is_recording
from equipoise.readouts.readout import TOWERS, Shared

DECAY = 0.98  # of usage: a code without use is dead after about 350 batches
DEAD = 1e-3
PAIRS = 64  # on which overlap is measured


class CodeBook(Shared):
    usage: Tensor  # [2, C] by images and by texts
    gain: Tensor | None  # by which relevance is multiplied, where it was found for a share of active codes

    def __init__(self, size: int, dim: int, scaled: bool = False):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(size, dim))
        self.register_buffer("usage", torch.zeros(len(TOWERS), size))
        self.register_buffer("gain", torch.ones(()) if scaled else None)
        self._active: dict[str, Tensor] = {}
        self._pairs: dict[str, Tensor] = {}

    def like(self) -> CodeBook:
        """Another book, whose codes are to be filled in; all else is the same."""
        return copy.deepcopy(self)

    @torch.no_grad()
    def note(self, tower: str, weights: Tensor) -> None:
        """Update the usage statistics with the weights [N, C] of a training batch."""
        if is_recording():
            raise RuntimeError("a code book keeps shares of each batch for the log")  # replays would not
        mean = weights.mean(0).to(self.usage)
        usage = self.usage[TOWERS.index(tower)]
        usage.lerp_(mean, torch.where(usage.any(), 1 - DECAY, 1.0).to(usage))  # not an `if`: a GPU is not waited for
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
