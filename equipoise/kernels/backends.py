"""Selection of Triton kernels: the one place that knows which contrasts have one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy, Divergence, Form, Sigmoid, StackedForms
from equipoise.kernels.sharding.shards import ShardedColumns
from equipoise.kernels.triton.euclidean import fused_euclidean
from equipoise.kernels.triton.geodesic import fused_geodesic
from equipoise.kernels.triton.infonce import fused_infonce, smoke_test
from equipoise.kernels.triton.infonce_sharded import fused_infonce_sharded
from equipoise.kernels.triton.sigmoid import fused_sigmoid
from equipoise.kernels.triton.softclip import fused_softclip
from equipoise.kernels.triton.softclip_weights import has_weights
from equipoise.ops.triton_support import why_unavailable
from equipoise.spaces import Euclidean, ProductSphere, Scorer, Sphere
from equipoise.targets import OneHot, Target
from equipoise.targets.softened import SoftenedBy
from equipoise.targets.weighted import WeightedPairs, WeightedRows

# Whether a GPU has run and timed them; `auto` leaves alone what has run in Triton's interpreter only.
MEASURED = {"infonce": True, "euclidean": True, "geodesic": True, "sigmoid": True, "softclip": True}
MEASURED_WEIGHTED = {**MEASURED, "softclip": False}  # the same of pairs that have weights


class Kernel(NamedTuple):
    name: str
    compute: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # rows, cols, log_scale and bias to the loss
    weighted: bool = False  # whether pairs have weights

    @property
    def measured(self) -> bool:
        return (MEASURED_WEIGHTED if self.weighted else MEASURED)[self.name]


def select_kernel(
    points: Tensor, scorer: Scorer, target: Target, form: Form, shards: ShardedColumns | None = None
) -> Kernel | str:
    """The kernel of this contrast or, in a few words, why there is none; `shards` if it is sharded over processes."""
    if isinstance(target, WeightedRows):
        return "weights of rows alone have no kernel yet"
    weights = target.masses.to(points.device) if isinstance(target, WeightedPairs) else None
    target = target.target if isinstance(target, WeightedPairs) else target
    if isinstance(target, SoftenedBy):
        found = _softclip(points, scorer, target, form, weights)
    else:
        found = _hard(scorer, target, form, weights)
    if isinstance(found, str):
        return found
    if shards is not None:
        if not isinstance(form, CrossEntropy) or found.name != "infonce":
            return "only cross_entropy by inner products has a kernel that can be divided among processes"
        compute = partial(fused_infonce_sharded, form=form, columns=shards, weights=weights)
        found = Kernel("infonce", lambda u, v, t, _b: compute(u, v, t), found.weighted)
    if points.dtype not in {torch.bfloat16, torch.float32}:
        return f"there are kernels for bfloat16 and float32 points, not for {points.dtype}"
    return why_unavailable(points, smoke_test) or found


def _hard(scorer: Scorer, target: Target, form: Form, weights: Tensor | None) -> Kernel | str:
    inner = has_inner_products(scorer)
    known_space = inner or isinstance(scorer, ProductSphere | Euclidean)
    kinds = (
        (known_space, "space", scorer, "sphere, product_sphere and euclidean"),
        (isinstance(target, OneHot), "target", target, "one_hot, and softened ones with divergences"),
        (isinstance(form, CrossEntropy | Sigmoid), "form", form, "cross_entropy and sigmoid"),
        (inner or isinstance(form, CrossEntropy), "form", form, "cross_entropy by distances"),
    )
    for known, part, given, kernels in kinds:
        if not known:
            return f"the {part} {type(given).__name__} has no kernel yet (there are kernels for {kernels})"
    weighted = weights is not None
    if isinstance(form, Sigmoid):
        return Kernel("sigmoid", lambda u, v, t, b: fused_sigmoid(u, v, t, b, form, weights=weights), weighted)
    assert isinstance(form, CrossEntropy)
    if inner:
        return Kernel("infonce", lambda u, v, t, _b: fused_infonce(u, v, t, form, weights=weights), weighted)
    if isinstance(scorer, ProductSphere):
        return Kernel("geodesic", lambda u, v, t, _b: fused_geodesic(u, v, t, form, scorer, weights=weights), weighted)
    return Kernel("euclidean", lambda u, v, t, _b: fused_euclidean(u, v, t, form, weights=weights), weighted)


def _softclip(points: Tensor, scorer: Scorer, target: SoftenedBy, form: Form, weights: Tensor | None) -> Kernel | str:
    guides = [relation for _, relation in (*target.rows, *target.cols)]
    problems = (
        (not all(has_inner_products(s) for s in (scorer, *(guide.space for guide in guides))), "of inner products"),
        (not isinstance(target.of, OneHot), "where a sample matches itself alone"),
        (len(guides) != 2, "with one guide"),
        (any(guide.left is not guide.right for guide in guides), "whose guides compare samples with themselves"),
        (any(guide.left.dtype != points.dtype for guide in guides), "with guides of the points' own type"),
    )
    for wrong, kernels in problems:
        if wrong:
            return f"softened targets have kernels only {kernels}"
    for part in form.forms if isinstance(form, StackedForms) else (form,):
        if not has_weights(part):
            what = f"{part.kind} divergence" if isinstance(part, Divergence) else f"form {type(part).__name__}"
            return f"the {what} has no kernel yet with softened targets (there are kernels for kl and symmetric_kl)"
    compute = partial(fused_softclip, form=form, target=target, weights=weights)
    return Kernel("softclip", lambda u, v, t, _b: compute(u, v, t), weights is not None)


def has_inner_products(scorer: Scorer) -> bool:
    return isinstance(scorer, Sphere) or (isinstance(scorer, ProductSphere) and scorer.distance == "inner")
