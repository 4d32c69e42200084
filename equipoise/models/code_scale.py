"""The scale of a code book by the share of its codes that are to be active.

    gain = the g for which mean_{samples of both towers} |{c : sparsemax(g·r)_c > 0}| / C = active

r [N, C] relevance at `readout.scale`. How many codes sparsemax leaves depends on how far apart scores lie, and that on
the encoder, the data and C: a scale that is right for one book is not for another. The share falls as g grows, from all
codes to one, so that bisection over ln g finds it. It is found once, before the first step, on a batch of training
data; training moves it on, and `codes/active_image` and `codes/active_text` of the log say where to. g is part of the
model (`shared.gain`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equipoise.models.forward_cache import ForwardCache
from equipoise.models.model import Model, evaluating
from equipoise.ops.sparsemax import sparsemax
from equipoise.readouts import CodeBook, CodeBookReadout
from equipoise.types import Batch

SAMPLES = 64
WIDEST, HALVINGS = 1e6, 60  # gains from 1/WIDEST to WIDEST


@torch.no_grad()
def set_code_scale(model: Model, batch: Batch) -> float | None:
    """Set the gain of a model whose readout names a share of active codes; None where it names none."""
    readout, book = model.image_readout, model.shared
    if not isinstance(readout, CodeBookReadout) or not isinstance(book, CodeBook) or book.gain is None:
        return None
    book.gain.fill_(1.0)
    towers = {name: model.tower(name) for name in ("image", "text")}
    cache = ForwardCache(towers, batch, frozenset(towers), frozenset(), model.log_scale.detach())
    with evaluating(model):
        parts = []
        for name in ("image", "text"):
            tower = model.tower(name).readout
            assert isinstance(tower, CodeBookReadout)
            parts.append(tower.relevance(cache.features(name), book))
    book.gain.fill_(gain_for(torch.cat(parts), readout.config.active))
    return float(book.gain)


def gain_for(relevance: Tensor, active: float) -> float:
    """The gain of relevance [N, C] at which a share `active` of the codes has a share, on average over samples."""
    low, high = -math.log(WIDEST), math.log(WIDEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        share = float((sparsemax(math.exp(middle) * relevance.double()) > 0).double().mean())
        low, high = (middle, high) if share > active else (low, middle)
    return math.exp((low + high) / 2)
