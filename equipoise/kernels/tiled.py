"""A contrastive loss in tiles: exact loss and gradients, memory linear in N.

One sweep over blocks gives row and column statistics from the same similarities; a second recomputes each block,
asks the form for d loss / d logits and pushes it through the space's similarity at once. So four matrix products
of N × M × d in all (one forward, one recomputed, two backward), and never more than a few tiles alive. Similarities
have the points' type; logits, statistics and sums over tiles are float32 at least, for bfloat16 would lose what a
tile adds to many.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equipoise.forms import SingleSweep, Statistics
from equipoise.kernels.blocks import blocks
from equipoise.spaces import Space
from equipoise.targets import Target


def tiled(
    rows: Tensor,
    cols: Tensor,
    log_scale: Tensor,
    bias: Tensor,
    space: Space,
    target: Target,
    form: SingleSweep,
    tile: int,
) -> Tensor:
    return _Tiled.apply(rows, cols, log_scale, bias, space, target, form, tile)  # type: ignore[no-untyped-call]


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        cols: Tensor,
        log_scale: Tensor,
        bias: Tensor,
        space: Space,
        target: Target,
        form: SingleSweep,
        tile: int,
    ) -> Tensor:
        exact = log_scale.dtype
        statistics = form.start(len(rows), len(cols), rows.new_empty(0, dtype=exact))
        scale = log_scale.exp()
        for r, c in blocks(len(rows), len(cols), tile):
            similarity = space.similarity(rows[r.start : r.stop], cols[c.start : c.stop])
            logits = form.shifted(scale * similarity.to(exact), bias)
            form.merge(statistics.at(r, c), form.partial(logits, target.block(r, c, logits)))
        ctx.save_for_backward(rows, cols, log_scale, bias, *statistics.rows.values(), *statistics.cols.values())
        ctx.parts = space, target, form, tile
        return form.finish(statistics)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        space, target, form, tile = ctx.parts
        rows, cols, log_scale, bias, *kept = ctx.saved_tensors
        names, shape = list(form.reductions), (len(rows), len(cols))
        row_values, col_values = kept[: len(names)], kept[len(names) :]
        statistics = Statistics(
            dict(zip(names, row_values, strict=True)), dict(zip(names, col_values, strict=True)), shape
        )
        scale = log_scale.exp()
        exact = log_scale.dtype
        grads = tuple(torch.zeros_like(x, dtype=exact) for x in (rows, cols, log_scale, bias))
        for r, c in blocks(*shape, tile):
            with torch.enable_grad():
                block_rows = rows[r.start : r.stop].detach().requires_grad_()
                block_cols = cols[c.start : c.stop].detach().requires_grad_()
                similarity = space.similarity(block_rows, block_cols)
            stretched = scale * similarity.detach().to(exact)
            logits = form.shifted(stretched, bias)
            grad = form.grad(logits, target.block(r, c, logits), statistics.at(r, c))
            grads[2].add_(torch.sum(grad * stretched))
            if form.learned_bias is not None:
                grads[3].add_(grad.sum())
            grad_rows, grad_cols = torch.autograd.grad(
                similarity, (block_rows, block_cols), grad.mul_(scale).to(similarity.dtype)
            )
            grads[0][r.start : r.stop] += grad_rows
            grads[1][c.start : c.stop] += grad_cols
        given = rows.dtype, cols.dtype, exact, exact
        return *((upstream[0] * g).to(kind) for g, kind in zip(grads, given, strict=True)), None, None, None, None
