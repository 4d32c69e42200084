"""InfoNCE on a GPU beside its peers, by inner products or by distances; rows and plans of `contrast_gpu.py`.

open_clip (its loss class, or the same lines where it is not installed) and inf_cl are found on the PYTHONPATH.
Gradients of arccos itself have a part along the radius that those of the space have not: its error says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from contrast_subject import HALF, SINGLE, Loss, Row, Subject, checked
from torch import Tensor
from torch.nn import functional as F

SCALE, COSINE = 50.0, 0.2
SPHERES = 8


def infonce(space: str) -> Subject:
    rows = inner_rows() if space == "sphere" else distance_rows(space)
    inputs, wanted = partial(points, space=space), partial(reference, space=space)
    return Subject(f"InfoNCE, {space}", rows, inputs, wanted, plans, fused_by)


def open_clip_loss(u: Tensor, v: Tensor, log_scale: Tensor) -> Tensor:
    try:
        from open_clip.loss import ClipLoss
    except Exception:  # it wants packages that a GPU machine may lack; these are its lines
        logits = log_scale.exp().to(u.dtype) * u @ v.T
        labels = torch.arange(len(u), device=u.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    return ClipLoss()(u, v, log_scale.exp().to(u.dtype))


def open_clip_amp(u: Tensor, v: Tensor, log_scale: Tensor) -> Tensor:
    with torch.autocast(u.device.type, torch.bfloat16):
        return open_clip_loss(u, v, log_scale)


def inf_cl_loss(u: Tensor, v: Tensor, log_scale: Tensor) -> Tensor:
    from inf_cl import cal_flash_loss

    scale = log_scale.exp()
    return (cal_flash_loss(u, v, scale=scale).mean() + cal_flash_loss(v, u, scale=scale).mean()) / 2


def space_for(name: str, dim: int):
    import equipoise as eq

    if name == "geodesic":
        return eq.ProductSphere(dim // SPHERES, SPHERES, distance="geodesic")
    return eq.Euclidean(dim) if name == "euclidean" else eq.Sphere(dim)


def ours(impl: str, space: str = "sphere") -> Loss:
    import equipoise as eq

    def loss(u: Tensor, v: Tensor, log_scale: Tensor) -> Tensor:
        parts = {"space": space_for(space, u.shape[1]), "target": eq.OneHot(), "form": eq.CrossEntropy()}
        return eq.contrast(u, v, log_scale=log_scale, impl=impl, **parts)

    return loss


def by_distance(distance: Callable[[Tensor, Tensor], Tensor]) -> Loss:
    """What one writes without a library: all distances, then twice the cross-entropy."""

    def loss(u: Tensor, v: Tensor, log_scale: Tensor) -> Tensor:
        logits = -log_scale.exp() * distance(u, v)
        labels = torch.arange(len(u), device=u.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2

    return loss


def arccosines(u: Tensor, v: Tensor) -> Tensor:
    u, v = (x.unflatten(1, (SPHERES, -1)).transpose(0, 1) for x in (u, v))
    return (u @ v.mT).clamp(-1 + 1e-6, 1 - 1e-6).arccos().square().sum(0).sqrt()


def fused_by(plan) -> Loss:
    import equipoise as eq
    from equipoise.kernels.triton.infonce import fused_infonce

    return lambda u, v, log_scale: fused_infonce(u, v, log_scale, eq.CrossEntropy(), plan)


def distance_rows(space: str) -> list[Row]:
    peer = Row("cdist fp32", SINGLE, by_distance(torch.cdist), 32768)
    if space == "geodesic":
        peer = Row("arccos fp32", SINGLE, by_distance(arccosines), 16384)
    return [
        peer,
        Row("eager fp32", SINGLE, ours("eager", space), 16384),
        Row("tiled fp32", SINGLE, ours("tiled", space), 16384),
        Row("fused fp32", SINGLE, ours("fused", space), 1 << 18),
        Row("fused bf16", HALF, ours("fused", space), 1 << 20),
    ]


def inner_rows() -> list[Row]:
    from equipoise.kernels.triton.launch_config import PLAN

    library = replace(PLAN, products="library", chunk_rows=4096, chunk_cols=4096)
    return [
        Row("open_clip bf16", HALF, open_clip_loss, 65536),
        Row("open_clip autocast", HALF, open_clip_amp, 32768),
        Row("open_clip fp32", SINGLE, open_clip_loss, 32768),
        Row("inf_cl", HALF, inf_cl_loss, 65536),
        Row("eager bf16", HALF, ours("eager"), 32768),
        Row("tiled bf16", HALF, ours("tiled"), 32768),
        Row("fused bf16", HALF, ours("fused"), 1 << 20),
        Row("fused bf16 library", HALF, fused_by(library), 65536),
        Row("tiled fp32", SINGLE, ours("tiled"), 32768),
        Row("fused fp32", SINGLE, ours("fused"), 65536),
        Row("fused fp32 library", SINGLE, fused_by(library.split()), 32768),
    ]


def points(n: int, d: int, dtype: torch.dtype, device: str, space: str = "sphere") -> tuple[Tensor, Tensor, Tensor]:
    """Pairs whose cosine is about COSINE, in a temperature that is far from having learned them."""
    noise = torch.Generator(device).manual_seed(n)
    project = space_for(space if space == "geodesic" else "sphere", d).project
    u, w = (project(torch.randn(n, d, generator=noise, device=device)) for _ in range(2))
    v = project(COSINE * u + math.sqrt(1 - COSINE**2) * w)
    log_scale = torch.tensor(math.log(SCALE), device=device)
    return u.to(dtype).requires_grad_(), v.to(dtype).requires_grad_(), log_scale.requires_grad_()


def reference(u: Tensor, v: Tensor, log_scale: Tensor, space: str = "sphere") -> tuple[Tensor, Tensor, Tensor]:
    """Gradients in float64 of the checked rows, the checked columns and log_scale, by blocks of rows."""
    u, v, scale, n = u.detach().double(), v.detach().double(), float(log_scale.detach().double().exp()), len(u)
    similarity = space_for(space, u.shape[1]).similarity
    block = max(1, (1 << 26) // n)
    by_row, by_col = u.new_empty(n), u.new_full((n,), -math.inf)
    for start in range(0, n, block):
        z = scale * similarity(u[start : start + block], v)
        by_row[start : start + block] = z.logsumexp(1)
        by_col = torch.logaddexp(by_col, z.logsumexp(0))
    for_rows, for_cols, for_scale = torch.empty_like(u), torch.zeros_like(v), u.new_zeros(())
    for start in range(0, n, block):
        some = slice(start, min(start + block, n))
        own, others = u[some].clone().requires_grad_(), v.clone().requires_grad_()
        similar = similarity(own, others)
        z = scale * similar.detach()
        g = (z - by_row[some, None]).exp_().add_((z - by_col).exp_())
        g.diagonal(start)[:] -= 2
        g /= 2 * n
        for_scale += (g * z).sum()
        of_rows, of_cols = torch.autograd.grad(similar, (own, others), scale * g)
        for_rows[some] = of_rows
        for_cols += of_cols
    return checked(for_rows), checked(for_cols), for_scale


def plans() -> Iterator[tuple[str, object]]:
    from equipoise.kernels.triton.launch_config import PLAN, Tile

    tiles = [
        Tile(128, 128, 64, 4, 3),
        Tile(128, 256, 64, 8, 3),
        Tile(128, 128, 64, 8, 3),
        Tile(128, 256, 64, 8, 4),
        Tile(128, 128, 64, 4, 4),
        Tile(256, 128, 64, 8, 3),
    ]
    for tile in tiles[:2]:
        yield " ".join(map(str, tile)), replace(PLAN, statistics=tile, gradient=tile)
    for down, across in ((2048, 8192), (4096, 4096), (4224, 8448), (8192, 16384)):
        yield f"chunks {down} {across}", replace(PLAN, chunk_rows=down, chunk_cols=across)
    for down, across, rows, cols, warps in (
        (4096, 4096, 64, 128, 4),
        (2048, 4096, 64, 128, 4),
        (8192, 8192, 64, 128, 4),
        (4096, 4096, 128, 128, 8),
    ):
        tile = Tile(rows, cols, 64, warps)
        library = replace(PLAN, products="library", statistics=tile, gradient=tile)
        yield f"library {down} {across} by {rows} {cols} {warps}", replace(library, chunk_rows=down, chunk_cols=across)
    for tile in tiles[2:]:
        yield " ".join(map(str, tile)), replace(PLAN, statistics=tile, gradient=tile)
    for group in (16, 32):
        yield f"group {group}", replace(PLAN, statistics=Tile(group=group), gradient=Tile(group=group))
