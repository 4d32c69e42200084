"""One function for every space × target × form: loss and exact gradients of a contrast between two sets of points.

    contrast(u, v, space=..., target=..., form=..., log_scale=t)

means, whatever computes it,

    logits = exp(t) * space.similarity(u, v);  form.finish(form.partial(logits, target.block(all rows, all columns)))

with the norms of whole rows and columns found first where form or target need them. `impl="eager"` does just that
under autograd and stores N × M matrices. `impl="tiled"` visits blocks, keeps a few numbers a row and a column, and
recomputes each block for the gradient: memory is linear in N. `"auto"` takes eager while its matrices are small and
tiled beyond. Where the target is made of tensors (a guide's points), they get their gradients too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.forms import Form, SingleSweep
from equipoise.kernels.sweeps import known_block, norms_of, swept
from equipoise.kernels.tiled import tiled
from equipoise.spaces import Space
from equipoise.targets import Target
from equipoise.types import UserError

IMPLEMENTATIONS = ("auto", "eager", "tiled")
EAGER_LIMIT = 2048 * 2048  # entries of the logit matrix; above it tiles are as fast and far smaller
TILE = 1024
SWEPT_TILE = 512  # autograd keeps a few dozen tiles of this size alive


def contrast(
    rows: Tensor,
    cols: Tensor,
    *,
    space: Space,
    target: Target,
    form: Form,
    log_scale: Tensor | float = 0.0,
    impl: str = "auto",
    tile: int = TILE,
) -> Tensor:
    """The loss of points `rows` [N, d] against points `cols` [M, d]: a scalar, differentiable in both and log_scale."""
    _check(rows, cols, space, impl)
    log_scale = torch.as_tensor(log_scale, dtype=rows.dtype, device=rows.device)
    if impl == "auto":
        impl = "eager" if len(rows) * len(cols) <= EAGER_LIMIT else "tiled"
    target = target.sized(len(rows), len(cols))
    form.check(target)
    if impl == "eager":
        return _eager(rows, cols, log_scale, space, target, form)
    if isinstance(form, SingleSweep) and not target.guided:
        return tiled(rows, cols, log_scale, space, target, form, tile)
    return swept(rows, cols, log_scale, space, target, form, min(tile, SWEPT_TILE))


def _eager(rows: Tensor, cols: Tensor, log_scale: Tensor, space: Space, target: Target, form: Form) -> Tensor:
    everything = range(len(rows)), range(len(cols))
    logits = log_scale.exp() * space.similarity(rows, cols)
    scores = target.scores(*everything, logits)
    norms = norms_of(form, target, logits, scores)
    return form.finish(form.partial(logits, known_block(target, *everything, logits, scores, norms), norms))


def _check(rows: Tensor, cols: Tensor, space: Space, impl: str) -> None:
    if impl not in IMPLEMENTATIONS:
        raise UserError(f"impl must be one of {', '.join(IMPLEMENTATIONS)}, not {impl!r}")
    for name, points in (("rows", rows), ("cols", cols)):
        if points.ndim != 2 or points.shape[1] != space.dim or not len(points):
            raise UserError(f"{name} must be points [N, {space.dim}] with N >= 1, not {list(points.shape)}")
    if (rows.dtype, rows.device) != (cols.dtype, cols.device):
        kinds = " and ".join(f"{points.dtype} on {points.device}" for points in (rows, cols))
        raise UserError(f"rows and cols must share dtype and device, not {kinds}")
