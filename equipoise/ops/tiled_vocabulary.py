"""Cross-entropy over a vocabulary in tiles: what each next word costs, without ever holding tokens × words.

    c_t = logsumexp_v(h_t·w_v + b_v) - (h_t·w_{y_t} + b_{y_t})           0 where y_t is `ignored`

h [T, d] hidden states of tokens, w [V, d] and b [V] of the map to words, y [T] the words to be guessed. It means

    F.cross_entropy(F.linear(h, w, b), y, ignore_index=ignored, reduction="none")

whose logits alone are T × V: for 128 captions of 76 tokens and CLIP's 49,408 words 1.9 GB in float32, and as much again
for their gradient. Here a tile of logits exists at a time and is made again for the gradient; beside it, one number per
token. Tokens that are ignored are left out before anything is computed. Logits are of the dtype of h, sums and costs at
least float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from equipoise.types import UserError

ROWS, WORDS = 4096, 4096  # of a tile


def tiled_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    bias: Tensor | None = None,
    *,
    ignored: int = -100,
    rows: int = ROWS,
    words: int = WORDS,
) -> Tensor:
    """The cost of every token [T], differentiable in `hidden`, `weight` and `bias`; a tile is `rows` × `words`."""
    _check(hidden, weight, labels, bias, ignored)
    kept = (labels != ignored).nonzero()[:, 0]
    costs = _TiledCrossEntropy.apply(hidden[kept], weight, bias, labels[kept], rows, words)  # type: ignore[no-untyped-call]
    return costs.new_zeros(len(labels)).index_copy(0, kept, costs)


class _TiledCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, rows: int, words: int
    ) -> Tensor:
        exact = torch.promote_types(hidden.dtype, torch.float32)
        normalizers = hidden.new_full((len(hidden),), -torch.inf, dtype=exact)
        own = torch.zeros_like(normalizers)
        with torch.autocast(hidden.device.type, enabled=False):
            for r, c in _tiles(len(hidden), len(weight), rows, words):
                logits = _logits(hidden[r], weight[c], bias, c)
                normalizers[r] = torch.logaddexp(normalizers[r], logits.logsumexp(1))
                here, column = _labels_in(labels[r], c)
                own[r] += torch.where(here, logits.gather(1, column[:, None])[:, 0], 0)
        ctx.save_for_backward(hidden, weight, bias, labels, normalizers)
        ctx.tile = (rows, words)
        return normalizers - own

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, labels, normalizers = ctx.saved_tensors
        exact = normalizers.dtype
        by_hidden, by_weight = (torch.zeros_like(x, dtype=exact) for x in (hidden, weight))
        by_bias = None if bias is None else torch.zeros_like(bias, dtype=exact)
        with torch.autocast(hidden.device.type, enabled=False):
            for r, c in _tiles(len(hidden), len(weight), *ctx.tile):
                grad = (_logits(hidden[r], weight[c], bias, c) - normalizers[r, None]).exp_()
                here, column = _labels_in(labels[r], c)
                grad.scatter_add_(1, column[:, None], -here.to(exact)[:, None])
                grad *= upstream[0][r, None]
                if by_bias is not None:
                    by_bias[c] += grad.sum(0)
                grad = grad.to(hidden.dtype)
                by_hidden[r] += grad @ weight[c].to(hidden.dtype)
                by_weight[c] += grad.T @ hidden[r]
        of_bias = None if by_bias is None else by_bias.to(bias.dtype)
        return by_hidden.to(hidden.dtype), by_weight.to(weight.dtype), of_bias, None, None, None


def _tiles(tokens: int, vocabulary: int, rows: int, words: int) -> Iterator[tuple[slice, slice]]:
    for r in range(0, tokens, rows):
        for c in range(0, vocabulary, words):
            yield slice(r, min(r + rows, tokens)), slice(c, min(c + words, vocabulary))


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, words: slice) -> Tensor:
    logits = (hidden @ weight.to(hidden.dtype).T).to(torch.promote_types(hidden.dtype, torch.float32))
    return logits if bias is None else logits + bias[words]


def _labels_in(labels: Tensor, words: slice) -> tuple[Tensor, Tensor]:
    """Whether each label is a word of the tile, and its column there; 0 where it is not."""
    here = (labels >= words.start) & (labels < words.stop)
    return here, torch.where(here, labels - words.start, 0)


def _check(hidden: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None, ignored: int) -> None:
    fits = hidden.ndim == weight.ndim == 2 and hidden.shape[1] == weight.shape[1] and labels.shape == hidden.shape[:1]
    if not fits or (bias is not None and bias.shape != weight.shape[:1]):
        shapes = [list(x.shape) for x in (hidden, weight, labels) if x is not None]
        raise UserError(f"give hidden [T, d], weight [V, d], labels [T] and bias [V] or none, not {shapes}")
    if labels.device.type == "cpu" and len(labels):  # a GPU would have to be waited for
        wrong = (labels != ignored) & ((labels < 0) | (labels >= len(weight)))
        if wrong.any():
            first = int(wrong.nonzero()[0, 0])
            raise UserError(f"label {int(labels[first])} of token {first} is no word of a vocabulary of {len(weight)}")
