"""SoftCLIP's whole loss (soft, relation and contrastive terms) on a GPU; rows and plans of `contrast_gpu.py`.

Images, texts, regions and tags, all with gradients. float64 is the tiled path's, which shares nothing with the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from contrast_infonce import COSINE, SCALE, ours
from contrast_subject import HALF, SINGLE, Loss, Row, Subject, exact
from torch import Tensor
from torch.nn import functional as F


def softclip() -> Subject:
    from equipoise.kernels.triton.softclip import PLAN, TILES
    from equipoise.targets import Guide

    rows = [
        Row("fused bf16", HALF, by_objective("fused"), 1 << 18),
        Row("fused bf16 tiles", HALF, by_plan(TILES), 1 << 18),
        Row("fused bf16, fixed guides", HALF, by_objective("fused", Guide(stop_gradient=True)), 1 << 18, exact=False),
        Row("fused fp32", SINGLE, by_objective("fused"), 1 << 17),
        Row("fused fp32 library", SINGLE, by_plan(PLAN.split()), 1 << 17),
        Row("tiled bf16", HALF, by_objective("tiled"), 16384),
        Row("tiled fp32", SINGLE, by_objective("tiled"), 16384),
        Row("eager fp32", SINGLE, by_objective("eager"), 16384),
    ]
    beside = Row("InfoNCE fused", HALF, ours("fused"), 1 << 20)
    return Subject("SoftCLIP", rows, inputs, exact(by_objective("tiled")), lambda: plans(PLAN, TILES), by_plan, beside)


def inputs(n: int, d: int, dtype: torch.dtype, device: str) -> tuple[Tensor, ...]:
    """Images, texts, log_scale, regions, tags: each of the others is about COSINE from its image."""
    noise = torch.Generator(device).manual_seed(n)
    u, *others = (F.normalize(torch.randn(n, d, generator=noise, device=device), dim=1) for _ in range(4))
    points = [u, *(F.normalize(COSINE * u + math.sqrt(1 - COSINE**2) * x, dim=1) for x in others)]
    u, v, r, a = (x.to(dtype).requires_grad_() for x in points)
    return u, v, torch.tensor(math.log(SCALE), device=device).requires_grad_(), r, a


def by_objective(impl: str, guide: object | None = None) -> Loss:
    import equipoise as eq
    from equipoise.targets import Guide

    objective = eq.objectives.SoftCLIP(impl=impl, guide=guide or Guide())

    def loss(u: Tensor, v: Tensor, log_scale: Tensor, r: Tensor, a: Tensor) -> Tensor:
        embeddings = eq.Embeddings(image=u, text=v, regions=r, tags=a)
        total = objective(embeddings, log_scale=log_scale, space=eq.Sphere(u.shape[1])).total
        return total + 0 * (r[0].sum() + a[0].sum()) if objective.guide.stop_gradient else total

    return loss


def by_plan(plan) -> Loss:
    import equipoise as eq
    from equipoise.forms import CrossEntropy, Divergence, OnHardTarget, StackedForms
    from equipoise.kernels.triton.softclip import fused_softclip
    from equipoise.targets import Softened

    form = StackedForms((Divergence(), Divergence(among="negatives"), OnHardTarget(CrossEntropy())))

    def loss(u: Tensor, v: Tensor, log_scale: Tensor, r: Tensor, a: Tensor) -> Tensor:
        embeddings = eq.Embeddings(image=u, text=v, regions=r, tags=a)
        target = Softened().bind(embeddings, None, log_scale=log_scale, space=eq.Sphere(u.shape[1]))
        soft, relation, clip = fused_softclip(u, v, log_scale, form, target, plan)
        return soft + relation + 0.5 * clip

    return loss


def plans(library, tiles) -> Iterator[tuple[str, object]]:
    from equipoise.kernels.triton.launch_config import Tile

    yield "library (default)", library
    yield "tiles (default)", tiles
    for rows, cols, warps in ((64, 64, 8), (32, 32, 4), (32, 128, 8), (64, 32, 4)):
        yield f"library, sums {rows} {cols} {warps}", replace(library, statistics=Tile(rows, cols, warps=warps))
    for rows, cols, warps in ((64, 64, 8), (32, 64, 8), (32, 64, 4), (16, 64, 4)):
        yield f"library, gradient {rows} {cols} {warps}", replace(library, gradient=Tile(rows, cols, warps=warps))
    for down, across, sweep in (
        (1024, 8192, 16384), (2048, 8192, 8192), (4096, 4096, 4096), (4096, 4096, 8192), (4096, 8192, 8192),
        (8192, 8192, 8192),
    ):  # fmt: skip
        chunks = {"chunk_rows": down, "chunk_cols": across, "sweep_cols": sweep}
        yield f"library, chunks {down} {across}, {sweep}", replace(library, **chunks)
    for tile in (Tile(64, 64, 64, 4, 3), Tile(128, 64, 64, 8, 4), Tile(64, 128, 64, 8, 3)):
        yield "tiles " + " ".join(map(str, tile)), replace(tiles, statistics=tile)
