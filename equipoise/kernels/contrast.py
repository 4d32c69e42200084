"""One function for every space × target × form: loss and exact gradients of a contrast between two sets of points.

    contrast(u, v, space=..., target=..., form=..., log_scale=t, bias=b)

means, whatever computes it,

    logits = exp(t) * space.similarity(u, v);  form.finish(form.statistics(logits, target.block(all rows, all columns)))

with b added to the logits where the form learns a bias, and the normalizers of whole rows and columns found first where
form or target need them. `impl="eager"` does just that under autograd and stores N × M matrices. `impl="tiled"` visits
blocks, keeps a few numbers per row and per column, and recomputes each for the gradient: memory is linear in N.
`impl="fused"` does the same at the speed of a GPU's matrix products, for the combinations that have kernels (see
`backends.py`). `"auto"` takes eager while its matrices are small; beyond, fused where it can and tiled elsewhere. Where
the target is made of tensors (a guide's points), they get their gradients too. Points that are not finite raise
UserError on the CPU; on a GPU, which would have to be waited for, the loss is NaN. Points that are not of the space and
a log_scale above ln 1000 raise UserError too (`plausible.py`), but not from `trusted_contrast`, by which training goes.
Several processes may share the work (`sharding/context.py`): then u and v are a shard of the batch, and the loss is
that of the whole. `space` may be any `Scorer` (`spaces/scorer.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.forms import ClosedFormGrad, Form
from equipoise.kernels.backends import Kernel, select_kernel
from equipoise.kernels.finite import require_finite
from equipoise.kernels.plausible import require_plausible
from equipoise.kernels.sharding.columns import Local
from equipoise.kernels.sharding.context import current_shards, target_of_batch
from equipoise.kernels.sharding.shards import ShardedColumns
from equipoise.kernels.tiled import TiledWork, tiled
from equipoise.kernels.tiled_normalized import tiled_normalized
from equipoise.kernels.tiled_normalized_block import NormalizedWork, block_normalizers, target_block
from equipoise.ops.scalar import scalar
from equipoise.spaces import Scorer
from equipoise.targets import Target
from equipoise.types import UserError

IMPLEMENTATIONS = ("auto", "eager", "tiled", "fused")
EAGER_LIMIT = 2048 * 2048  # entries of the logit matrix; above it tiles are as fast and far smaller
TILE = {"cpu": 1024, "cuda": 4096}  # rows and columns: a few such tiles stay in a processor's cache, or fill a GPU
NORMALIZED_TILE = {"cpu": 512, "cuda": 2048}  # autograd keeps a few dozen tiles of this size alive


def contrast(
    rows: Tensor,
    cols: Tensor,
    *,
    space: Scorer,
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
    require_plausible({"rows": rows, "cols": cols}, space, log_scale)
    return trusted_contrast(
        rows, cols, space=space, target=target, form=form, log_scale=log_scale, bias=bias, impl=impl, tile=tile
    )


def trusted_contrast(
    rows: Tensor,
    cols: Tensor,
    *,
    space: Scorer,
    target: Target,
    form: Form,
    log_scale: Tensor | float,
    bias: Tensor | float | None,
    impl: str,
    tile: int | None = None,
) -> Tensor:
    """`contrast` of points that are known to be the space's, at a scale that is known to be meant."""
    _check(rows, cols, space, impl)
    _check_bias(form, bias)
    exact = torch.promote_types(rows.dtype, torch.float32)  # bfloat16 would change a scale by a per cent
    scalars = (scalar(x, exact, rows.device) for x in (log_scale, 0.0 if bias is None else bias))
    inputs, shards = _Inputs(rows, cols, *scalars), current_shards()
    target = target.sized(len(rows), len(cols)) if shards is None else target_of_batch(shards, rows, cols, target, form)
    form.check(target)
    _check_weights(form, target)
    _check_devices(rows, target)
    if not form.tileable and impl in {"tiled", "fused"}:
        raise UserError(
            f'impl="{impl}" is not possible: the form {type(form).__name__} needs all logits at once; choose "eager"'
        )
    loss = _Contrast(space, target, form, shards).loss(inputs, impl, tile)
    guides = (("the points of a guide", x) for x in target.tensors() if x.ndim)
    return require_finite(loss, iter((*inputs._asdict().items(), *guides)))


class _Inputs(NamedTuple):
    rows: Tensor  # [N, d]
    cols: Tensor  # [M, d]
    log_scale: Tensor  # a scalar, float32 at least, as is the bias
    bias: Tensor


@dataclass(frozen=True)
class _Contrast:
    """One contrast, and the implementations that can compute it."""

    scorer: Scorer
    target: Target
    form: Form
    shards: ShardedColumns | None

    def loss(self, inputs: _Inputs, impl: str, tile: int | None) -> Tensor:
        impl = self._choose(inputs) if impl == "auto" else impl
        if impl == "fused":
            return self._fused(inputs)
        if impl == "tiled":
            return self._tiled(inputs, tile)
        return self._eager(inputs) if self.shards is None else self._tiled(inputs, max(self.shards.sizes))

    def _choose(self, inputs: _Inputs) -> str:
        if len(inputs.rows) * len(inputs.cols) <= EAGER_LIMIT or not self.form.tileable:
            return "eager"
        kernel = self._kernel(inputs.rows) if inputs.rows.is_cuda else ""
        return "fused" if isinstance(kernel, Kernel) and kernel.measured else "tiled"

    def _eager(self, inputs: _Inputs) -> Tensor:
        form, target, whole = self.form, self.target, (range(len(inputs.rows)), range(len(inputs.cols)))
        similarity = self.scorer.similarity(inputs.rows, inputs.cols)
        logits = form.shifted(inputs.log_scale.exp() * similarity, inputs.bias)
        scores = target.scores(*whole, logits)
        normalizers = block_normalizers(form, target, logits, scores)
        block = target_block(target, *whole, logits, scores, normalizers)
        return form.finish(form.statistics(logits, block, normalizers))

    def _tiled(self, inputs: _Inputs, tile: int | None) -> Tensor:
        columns = self.shards or Local(len(inputs.rows), len(inputs.cols))
        device = "cuda" if inputs.rows.is_cuda else "cpu"
        if isinstance(self.form, ClosedFormGrad) and not self.target.guided:
            return tiled(*inputs, TiledWork(self.scorer, self.target, self.form, tile or TILE[device], columns))
        most = NORMALIZED_TILE[device]
        work = NormalizedWork(self.scorer, self.target, self.form, min(tile or most, most), columns)
        return tiled_normalized(*inputs, work)

    def _fused(self, inputs: _Inputs) -> Tensor:
        kernel = self._kernel(inputs.rows)
        if isinstance(kernel, str):
            raise UserError(f'impl="fused" is not possible: {kernel}; choose impl="tiled" or "auto"')
        return kernel.compute(*inputs)

    def _kernel(self, points: Tensor) -> Kernel | str:
        return select_kernel(points, self.scorer, self.target, self.form, self.shards)


def _check_bias(form: Form, bias: Tensor | float | None) -> None:
    if (bias is None) != (form.learned_bias is None):
        problem = "learns its bias; give bias=..." if bias is None else "learns no bias; leave bias out"
        raise UserError(f"the form {type(form).__name__} {problem}, or set the form's `learned` otherwise")


def _check(rows: Tensor, cols: Tensor, scorer: Scorer, impl: str) -> None:
    if impl not in IMPLEMENTATIONS:
        raise UserError(f"impl must be one of {', '.join(IMPLEMENTATIONS)}, not {impl!r}")
    for name, points in (("rows", rows), ("cols", cols)):
        if points.ndim != 2 or points.shape[1] != scorer.dim or not len(points):
            raise UserError(f"{name} must be points [N, {scorer.dim}] with N >= 1, not {list(points.shape)}")
    if (rows.dtype, rows.device) != (cols.dtype, cols.device):
        kinds = " and ".join(f"{points.dtype} on {points.device}" for points in (rows, cols))
        raise UserError(f"rows and cols must share dtype and device, not {kinds}")


def _check_weights(form: Form, target: Target) -> None:
    if target.weighted and not form.weighable:
        raise UserError(
            f"the form {type(form).__name__} does not say what weights of pairs do to it; set its `weighable`, or "
            "leave weights out"
        )


def _check_devices(rows: Tensor, target: Target) -> None:
    for tensor in target.tensors():
        if tensor.device != rows.device:
            raise UserError(f"the points are on {rows.device} and those of a guide on {tensor.device}; move either")
