"""One function for every space × target × form: loss and exact gradients of a contrast between two sets of points.

    contrast(u, v, space=..., target=..., form=..., log_scale=t, bias=b)

means, whatever computes it,

    logits = exp(t) * space.similarity(u, v);  form.finish(form.partial(logits, target.block(all rows, all columns)))

with b added to the logits where the form learns a bias, and the normalizers of whole rows and columns found first where
form or target need them. `impl="eager"` does just that under autograd and stores N × M matrices. `impl="tiled"` visits
blocks, keeps a few numbers a row and a column, and recomputes each block for the gradient: memory is linear in N.
`impl="fused"` does the same at the speed of a GPU's matrix products, for the combinations that have kernels (see
`backends.py`). `"auto"` takes eager while its matrices are small; beyond, fused where it can and tiled elsewhere. Where
the target is made of tensors (a guide's points), they get their gradients too. Points that are not finite are refused
in a sentence on the processor; on a GPU, which would have to be waited for, the loss is NaN. Several processes may
share the work (`sharding/context.py`): then u and v are a part of the batch, and the loss is that of the whole.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.forms import ClosedFormGrad, Form
from equipoise.kernels.backends import Kernel, select_kernel
from equipoise.kernels.finite import require_finite
from equipoise.kernels.sharding.columns import Columns, Local
from equipoise.kernels.sharding.context import division, whole_target
from equipoise.kernels.sharding.shards import ShardedColumns
from equipoise.kernels.tiled import Tiles, tiled
from equipoise.kernels.tiled_normalized import swept
from equipoise.kernels.tiled_normalized_block import Sweeps, known_block, norms_of
from equipoise.spaces import Space
from equipoise.targets import Target
from equipoise.types import UserError

IMPLEMENTATIONS = ("auto", "eager", "tiled", "fused")
EAGER_LIMIT = 2048 * 2048  # entries of the logit matrix; above it tiles are as fast and far smaller
TILE = {"cpu": 1024, "cuda": 4096}  # rows and columns: a few such tiles stay in a processor's cache, or fill a GPU
SWEPT_TILE = {"cpu": 512, "cuda": 2048}  # autograd keeps a few dozen tiles of this size alive


def contrast(
    rows: Tensor,
    cols: Tensor,
    *,
    space: Space,
    target: Target,
    form: Form,
    log_scale: Tensor | float = 0.0,
    bias: Tensor | float | None = None,
    impl: str = "auto",
    tile: int | None = None,
) -> Tensor:
    """The loss of points `rows` [N, d] against points `cols` [M, d]: a scalar, differentiable in both, log_scale and
    bias; a form that learns a bias must be given one, others take none. `tile` is the side of a tile."""
    _check(rows, cols, space, impl)
    _check_bias(form, bias)
    exact = torch.promote_types(rows.dtype, torch.float32)  # bfloat16 would change a temperature by a per cent
    log_scale, b = (
        torch.as_tensor(x, dtype=exact, device=rows.device) for x in (log_scale, 0.0 if bias is None else bias)
    )
    parts = division()
    target = target.sized(len(rows), len(cols)) if parts is None else whole_target(parts, rows, cols, target, form)
    form.check(target)
    _check_devices(rows, target)
    if not form.tileable and impl in {"tiled", "fused"}:
        raise UserError(
            f'impl="{impl}" is not possible: the form {type(form).__name__} needs all logits at once; choose "eager"'
        )
    if impl == "auto":
        impl = _chosen(rows, cols, space, target, form, parts)
    loss = _computed(rows, cols, log_scale, b, space, target, form, impl, tile, parts)
    guides = (("the points of a guide", x) for x in target.tensors() if x.ndim)
    return require_finite(loss, iter((("rows", rows), ("cols", cols), ("log_scale", log_scale), ("bias", b), *guides)))


def _computed(
    rows: Tensor,
    cols: Tensor,
    log_scale: Tensor,
    bias: Tensor,
    space: Space,
    target: Target,
    form: Form,
    impl: str,
    tile: int | None,
    parts: ShardedColumns | None,
) -> Tensor:
    if impl == "eager" and parts is not None:
        return _in_tiles(rows, cols, log_scale, bias, space, target, form, max(parts.sizes), parts)
    if impl == "eager":
        return _eager(rows, cols, log_scale, bias, space, target, form)
    if impl == "fused":
        kernel = select_kernel(rows, space, target, form, parts)
        if isinstance(kernel, str):
            raise UserError(f'impl="fused" is not possible: {kernel}; choose impl="tiled" or "auto"')
        return kernel.compute(rows, cols, log_scale, bias)
    return _in_tiles(rows, cols, log_scale, bias, space, target, form, tile, parts or Local(len(rows), len(cols)))


def _in_tiles(
    rows: Tensor,
    cols: Tensor,
    log_scale: Tensor,
    bias: Tensor,
    space: Space,
    target: Target,
    form: Form,
    tile: int | None,
    columns: Columns,
) -> Tensor:
    if isinstance(form, ClosedFormGrad) and not target.guided:
        tile = tile or _side(TILE, rows)
        return tiled(rows, cols, log_scale, bias, Tiles(space, target, form, tile, columns))
    most = _side(SWEPT_TILE, rows)
    return swept(rows, cols, log_scale, bias, Sweeps(space, target, form, min(tile or most, most), columns))


def _side(of_device: dict[str, int], points: Tensor) -> int:
    return of_device["cuda" if points.is_cuda else "cpu"]


def _chosen(rows: Tensor, cols: Tensor, space: Space, target: Target, form: Form, parts: ShardedColumns | None) -> str:
    if len(rows) * len(cols) <= EAGER_LIMIT or not form.tileable:
        return "eager"
    kernel = select_kernel(rows, space, target, form, parts) if rows.is_cuda else ""
    return "fused" if isinstance(kernel, Kernel) and kernel.measured else "tiled"


def _eager(
    rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, space: Space, target: Target, form: Form
) -> Tensor:
    everything = range(len(rows)), range(len(cols))
    logits = form.shifted(log_scale.exp() * space.similarity(rows, cols), bias)
    scores = target.scores(*everything, logits)
    normalizers = norms_of(form, target, logits, scores)
    return form.finish(form.partial(logits, known_block(target, *everything, logits, scores, normalizers), normalizers))


def _check_bias(form: Form, bias: Tensor | float | None) -> None:
    if (bias is None) != (form.learned_bias is None):
        wish = "learns its bias; give bias=..." if bias is None else "learns no bias; leave bias out"
        raise UserError(f"the form {type(form).__name__} {wish}, or set the form's `learned` otherwise")


def _check(rows: Tensor, cols: Tensor, space: Space, impl: str) -> None:
    if impl not in IMPLEMENTATIONS:
        raise UserError(f"impl must be one of {', '.join(IMPLEMENTATIONS)}, not {impl!r}")
    for name, points in (("rows", rows), ("cols", cols)):
        if points.ndim != 2 or points.shape[1] != space.dim or not len(points):
            raise UserError(f"{name} must be points [N, {space.dim}] with N >= 1, not {list(points.shape)}")
    if (rows.dtype, rows.device) != (cols.dtype, cols.device):
        kinds = " and ".join(f"{points.dtype} on {points.device}" for points in (rows, cols))
        raise UserError(f"rows and cols must share dtype and device, not {kinds}")


def _check_devices(rows: Tensor, target: Target) -> None:
    for tensor in target.tensors():
        if tensor.device != rows.device:
            raise UserError(f"the points are on {rows.device} and those of a guide on {tensor.device}; move either")
