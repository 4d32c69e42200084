"""Which contrasts have Triton kernels, and how each is computed. The one place that knows all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy, Divergence, Form, Sigmoid, StackedForms
from equipoise.kernels.sharding.shards import ShardedColumns
from equipoise.kernels.triton.euclidean import fused_straight
from equipoise.kernels.triton.geodesic import fused_arcs
from equipoise.kernels.triton.infonce import fused
from equipoise.kernels.triton.infonce_sharded import fused_in_parts
from equipoise.kernels.triton.lazy import trial
from equipoise.kernels.triton.sigmoid import fused_sigmoid
from equipoise.kernels.triton.softclip import fused_softened
from equipoise.kernels.triton.softclip_weights import has_weights
from equipoise.ops.triton_support import why_unavailable
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere
from equipoise.targets import OneHot, Target
from equipoise.targets.softened import SoftenedBy

# Whether a GPU has run and timed them; `auto` leaves alone what has run in Triton's interpreter only.
MEASURED = {"inner": True, "straight": True, "arcs": True, "sigmoid": True, "softened": True}


class Kernel(NamedTuple):
    name: str
    compute: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # of rows, cols, log_scale and bias

    @property
    def measured(self) -> bool:
        return MEASURED[self.name]


def select_kernel(
    points: Tensor, space: Space, target: Target, form: Form, parts: ShardedColumns | None = None
) -> Kernel | str:
    """The kernel of this contrast or, in a few words, why there is none; `parts` if it is divided among processes."""
    found = _softened(points, space, target, form) if isinstance(target, SoftenedBy) else _hard(space, target, form)
    if isinstance(found, str):
        return found
    if parts is not None:
        if not isinstance(form, CrossEntropy) or found.name != "inner":
            return "only cross_entropy by inner products has a kernel that can be divided among processes"
        found = Kernel("inner", lambda u, v, t, _b: fused_in_parts(u, v, t, form, parts))
    if points.dtype not in {torch.bfloat16, torch.float32}:
        return f"there are kernels for bfloat16 and float32 points, not for {points.dtype}"
    return why_unavailable(points, trial) or found


def _hard(space: Space, target: Target, form: Form) -> Kernel | str:
    inner = _has_inner_products(space)
    kinds = (
        (inner or isinstance(space, ProductSphere | Euclidean), "space", space, "sphere, product_sphere and euclidean"),
        (isinstance(target, OneHot), "target", target, "one_hot, and softened ones with divergences"),
        (isinstance(form, CrossEntropy | Sigmoid), "form", form, "cross_entropy and sigmoid"),
        (inner or isinstance(form, CrossEntropy), "form", form, "cross_entropy by distances"),
    )
    for known, part, given, kernels in kinds:
        if not known:
            return f"the {part} {type(given).__name__} has no kernel yet (there are kernels for {kernels})"
    if isinstance(form, Sigmoid):
        return Kernel("sigmoid", lambda u, v, t, b: fused_sigmoid(u, v, t, b, form))
    assert isinstance(form, CrossEntropy)
    if inner:
        return Kernel("inner", lambda u, v, t, _b: fused(u, v, t, form))
    if isinstance(space, ProductSphere):
        return Kernel("arcs", lambda u, v, t, _b: fused_arcs(u, v, t, form, space))
    return Kernel("straight", lambda u, v, t, _b: fused_straight(u, v, t, form))


def _softened(points: Tensor, space: Space, target: SoftenedBy, form: Form) -> Kernel | str:
    guides = (*target.rows, *target.cols)
    problems = (
        (not all(_has_inner_products(s) for s in (space, *(kin.space for _, kin in guides))), "of inner products"),
        (not isinstance(target.of, OneHot), "where a sample matches itself alone"),
        (len(guides) != 2, "with one guide"),
        (any(kin.left is not kin.right for _, kin in guides), "whose guides compare samples with themselves"),
        (any(kin.left.dtype != points.dtype for _, kin in guides), "with guides of the points' own type"),
    )
    for wrong, kernels in problems:
        if wrong:
            return f"softened targets have kernels only {kernels}"
    for part in form.forms if isinstance(form, StackedForms) else (form,):
        if not has_weights(part):
            what = f"{part.kind} divergence" if isinstance(part, Divergence) else f"form {type(part).__name__}"
            return f"the {what} has no kernel yet with softened targets (there are kernels for kl and symmetric_kl)"
    return Kernel("softened", lambda u, v, t, _b: fused_softened(u, v, t, form, target))


def _has_inner_products(space: Space) -> bool:
    return isinstance(space, Sphere) or (isinstance(space, ProductSphere) and space.distance == "inner")
