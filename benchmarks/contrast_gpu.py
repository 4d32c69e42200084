"""Time, memory and error of InfoNCE on a GPU: peers, eager, tiled and fused in one table.

    python benchmarks/contrast_gpu.py --pairs 4096 32768 65536        # every row
    python benchmarks/contrast_gpu.py --pairs 16384 --space euclidean  # by distances; or geodesic, on 8 spheres
    python benchmarks/contrast_gpu.py --tune                          # how the fused kernels are best cut
    python benchmarks/contrast_gpu.py --smoke                         # a run of everything on the processor, tiny

Time is the median of forward and backward by CUDA events, after a warm-up; memory the peak above the inputs, gradients
included. Errors are of the gradients of some rows and columns and of log_scale, relative to the largest entry, against
float64 computed from the same rounded inputs. A row that fails says why, and the others go on. open_clip (its loss
class, or the same lines where it is not installed) and inf_cl are found on the PYTHONPATH. Gradients of arccos itself
have a part along the radius that those of the space have not: its error says nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of points, points and log_scale
SCALE, COSINE = 50.0, 0.2
SPHERES = 8
GIBIBYTE = 2**30
CHECKED = 64  # rows and columns at either end whose gradients are compared


@dataclass
class Row:
    name: str
    dtype: torch.dtype
    loss: Loss
    most: int  # pairs beyond which it is not tried


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
    from equipoise.kernels.fused import fused

    return lambda u, v, log_scale: fused(u, v, log_scale, eq.CrossEntropy(), plan)


def rows(space: str) -> list[Row]:
    if space != "sphere":
        half, single = torch.bfloat16, torch.float32
        peer = Row("cdist fp32", single, by_distance(torch.cdist), 32768)
        if space == "geodesic":
            peer = Row("arccos fp32", single, by_distance(arccosines), 16384)
        return [
            peer,
            Row("eager fp32", single, ours("eager", space), 16384),
            Row("tiled fp32", single, ours("tiled", space), 16384),
            Row("fused fp32", single, ours("fused", space), 1 << 18),
            Row("fused bf16", half, ours("fused", space), 1 << 20),
        ]
    return inner_rows()


def inner_rows() -> list[Row]:
    from equipoise.kernels.fused_plan import PLAN

    library = replace(PLAN, products="library", chunk_rows=4096, chunk_cols=4096)
    half, single = torch.bfloat16, torch.float32
    return [
        Row("open_clip bf16", half, open_clip_loss, 65536),
        Row("open_clip autocast", half, open_clip_amp, 32768),
        Row("open_clip fp32", single, open_clip_loss, 32768),
        Row("inf_cl", half, inf_cl_loss, 65536),
        Row("eager bf16", half, ours("eager"), 32768),
        Row("tiled bf16", half, ours("tiled"), 32768),
        Row("fused bf16", half, ours("fused"), 1 << 20),
        Row("fused bf16 library", half, fused_by(library), 65536),
        Row("tiled fp32", single, ours("tiled"), 32768),
        Row("fused fp32", single, ours("fused"), 65536),
        Row("fused fp32 library", single, fused_by(library.split()), 32768),
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


def checked(grads: Tensor) -> Tensor:
    return torch.cat((grads[:CHECKED], grads[-CHECKED:])).double()


def error(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> tuple[float, float]:
    """Of the points' gradients and of log_scale's, the latter relative to its largest possible size."""
    pairs = zip((checked(found[0]), checked(found[1])), wanted[:2], strict=True)
    return (
        max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs),
        abs(float(found[2]) / float(wanted[2]) - 1),
    )


def measure(loss: Loss, inputs: tuple[Tensor, ...], seconds: float) -> tuple[float, float, tuple[Tensor, ...]]:
    """Milliseconds, bytes above the inputs, and the gradients."""
    on_gpu = inputs[0].is_cuda

    def once() -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss(*inputs), inputs)

    once()  # compiles
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else 0
    started = time.perf_counter()
    grads = once()
    if on_gpu:
        torch.cuda.synchronize()
    took = time.perf_counter() - started
    peak = torch.cuda.max_memory_allocated() - before if on_gpu else 0
    times = list(timed(once, on_gpu, seconds)) if took < 2 else [took * 1000]
    return statistics.median(times), peak, grads


def timed(work: Callable[[], object], on_gpu: bool, seconds: float) -> Iterator[float]:
    end = time.perf_counter() + seconds
    for number in range(50):
        if number >= 3 and time.perf_counter() > end:
            return
        if on_gpu:
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            stop.record()
            stop.synchronize()
            yield start.elapsed_time(stop)
        else:
            start_s = time.perf_counter()
            work()
            yield (time.perf_counter() - start_s) * 1000


def table(options: argparse.Namespace) -> None:
    print(f"{'pairs':>9}  {'':<20}{'ms':>10}{'GiB above':>11}{'TFLOP/s':>9}{'grad error':>12}{'log_scale':>11}")
    for n in options.pairs:
        wanted: dict[torch.dtype, tuple[Tensor, ...]] = {}
        for row in rows(options.space):
            if (options.only and not any(word in row.name for word in options.only)) or n > row.most:
                continue
            inputs = points(n, options.dim, row.dtype, options.device, options.space)
            if n <= options.checked and row.dtype not in wanted:
                wanted[row.dtype] = reference(*inputs, options.space)
            report(f"{n:>9,}  {row.name:<20}", row.loss, inputs, wanted.get(row.dtype), options.seconds)


def report(
    name: str, loss: Loss, inputs: tuple[Tensor, ...], wanted: tuple[Tensor, ...] | None, seconds: float
) -> None:
    try:
        milliseconds, peak, grads = measure(loss, inputs, seconds)
    except Exception as problem:
        lines = str(problem).splitlines() or [""]
        print(f"{name}  fails: {type(problem).__name__}: {lines[0][:150]}", flush=True)
        if not isinstance(problem, torch.OutOfMemoryError):
            print("\n".join(f"    {line[:200]}" for line in lines[1:6]), file=sys.stderr, flush=True)
    else:
        n, d = inputs[0].shape
        errors = "" if wanted is None else "{:>12.1e}{:>11.1e}".format(*error(grads, wanted))
        rate = 8 * n * n * d / milliseconds / 1e9
        print(f"{name}{milliseconds:>10.2f}{peak / GIBIBYTE:>11.3f}{rate:>9.0f}{errors}", flush=True)
    finally:
        if inputs[0].is_cuda:
            torch.cuda.empty_cache()


def plans() -> Iterator[tuple[str, object]]:
    from equipoise.kernels.fused_plan import PLAN, Tile

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


def limits(options: argparse.Namespace) -> None:
    """What the library's products of a chunk reach by themselves."""
    from equipoise.kernels.products import add_product

    size = 8192 if options.device == "cuda" else 64
    d, new = options.dim, {"device": options.device, "dtype": torch.bfloat16}
    u, v, g = torch.randn(size, d, **new), torch.randn(size, d, **new), torch.randn(size, size, **new)
    logits, sums, rounded = (
        torch.empty_like(g, dtype=torch.float32),
        torch.empty_like(u, dtype=torch.float32),
        g.clone(),
    )
    works = {
        "u vᵀ, bfloat16": lambda: torch.mm(u, v.T, out=rounded),
        "u vᵀ, float32": lambda: add_product(logits, [u], [v.T], fresh=True),
        "g v": lambda: add_product(sums, [g], [v], fresh=True),
        "+ g v": lambda: add_product(sums, [g], [v]),
        "+ gᵀ u": lambda: add_product(sums, [g.T], [u]),
    }
    for name, work in works.items():
        work()
        milliseconds = statistics.median(timed(work, options.device == "cuda", 0.1))
        print(
            f"{'':>9} {name:<42}{milliseconds:>9.3f}{2 * size * size * d / milliseconds / 1e9:>9.0f} TFLOP/s",
            flush=True,
        )


def tune(options: argparse.Namespace) -> None:
    """Milliseconds of the forward pass alone and of both, by plan."""
    limits(options)
    for n in options.pairs:
        print(f"{n:>9,} bf16, plan{'':<32}{'forward':>9}{'both':>9}{'GiB above':>11}")
        inputs = points(n, options.dim, torch.bfloat16, options.device)
        for name, plan in plans():
            try:
                forward, both, peak = by_plan(plan, inputs, options.seconds)
                print(f"{'':>9} {name:<42}{forward:>9.2f}{both:>9.2f}{peak / GIBIBYTE:>11.3f}", flush=True)
            except Exception as problem:
                first = (str(problem).splitlines() or [""])[0]
                print(f"{'':>9} {name:<42}  fails: {type(problem).__name__}: {first[:120]}", flush=True)


def by_plan(plan: object, inputs: tuple[Tensor, ...], seconds: float) -> tuple[float, float, float]:
    """Milliseconds forward, and forward and backward; bytes above the inputs."""
    loss = fused_by(plan)
    both, peak, _ = measure(loss, inputs, seconds / 3)
    with torch.no_grad():
        forward = statistics.median(timed(lambda: loss(*inputs), inputs[0].is_cuda, seconds / 6))
    return forward, both, peak


def main() -> None:
    parser = argparse.ArgumentParser(description="InfoNCE on a GPU: time, memory and error beside peers.")
    parser.add_argument("--pairs", type=int, nargs="+", default=[4096, 16384, 32768, 65536])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--space", choices=("sphere", "euclidean", "geodesic"), default="sphere")
    parser.add_argument("--only", nargs="+", help="rows whose names contain one of these words")
    parser.add_argument("--seconds", type=float, default=0.6, help="spent timing each row")
    parser.add_argument("--checked", type=int, default=65536, help="up to how many pairs errors are computed")
    parser.add_argument("--tune", action="store_true", help="sweep the plans of the fused kernels instead")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the processor, Triton interpreted")
    options = parser.parse_args()
    if options.smoke:
        os.environ["TRITON_INTERPRET"] = "1"
        options.device, options.pairs, options.dim, options.seconds = "cpu", [130], 32, 0.0
    where = torch.cuda.get_device_name() if options.device == "cuda" else "processor"
    print(f"InfoNCE, {options.space}, d = {options.dim}, forward and backward, {where}, torch {torch.__version__}")
    (tune if options.tune else table)(options)


if __name__ == "__main__":
    main()
