"""What a contrastive loss costs, eager against tiled: `python benchmarks/contrast_memory.py [--space NAME]` (Linux).

    --objective softclip                   with random guides, which get gradients too, instead of CLIP's
    --objective softclip --beside clip     both in tiles: what one objective costs more than another

Loss and gradients of an objective on N random pairs, in float32 on the CPU. Each measurement has a process of its own,
and the two that are compared take turns. Memory is the highest resident size during some forward and backward passes,
above what it was just before them, when the inputs were there already and a small pass had loaded every library; the
gradients themselves count. Time is that of the fastest of these passes.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np
import torch
from resident import Resident
from torch import Tensor

import equipoise as eq
from equipoise.objectives import OBJECTIVES
from equipoise.spaces import Space

MEBIBYTE = 2**20
SPHERES = 8
SPACES: dict[str, Callable[[int], Space]] = {
    "sphere": eq.Sphere,
    "euclidean": eq.Euclidean,
    "product_sphere": lambda dim: eq.ProductSphere(dim // SPHERES, SPHERES),
    "geodesic": lambda dim: eq.ProductSphere(dim // SPHERES, SPHERES, distance="geodesic"),
}


@dataclass(frozen=True)
class Measured:
    peak: int  # bytes above the inputs
    seconds: float
    gradients: tuple[np.ndarray, ...]  # of all points and of log_scale


def measure(objective_name: str, impl: str, name: str, pairs: int, dim: int, threads: int, repeats: int) -> Measured:
    """One implementation at one size; meant for a fresh process."""
    torch.set_num_threads(threads)
    space = SPACES[name](dim)
    chosen = OBJECTIVES[objective_name]
    objective = replace(chosen() if isinstance(chosen, type) else chosen, impl=impl)  # type: ignore[type-var]
    inputs = _inputs(space, pairs, objective.needs)

    def gradients(of: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        roles = {role: of[role] for role in objective.needs}
        loss = objective(eq.Embeddings(**roles), log_scale=of["log_scale"], space=space)
        return torch.autograd.grad(loss.total, tuple(of.values()))

    gradients(_inputs(space, 64, objective.needs))
    memory = Resident()
    seconds = min(_seconds(lambda: gradients(inputs)) for _ in range(repeats))
    peak = memory.peak()
    return Measured(peak, seconds, tuple(gradient.numpy() for gradient in gradients(inputs)))


def relative_difference(one: Measured, other: Measured) -> float:
    """The largest difference of any gradient entry, relative to the largest entry of that gradient."""
    pairs = zip(one.gradients, other.gradients, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def _inputs(space: Space, pairs: int, roles: Sequence[str]) -> dict[str, Tensor]:
    """Random points for the first role, and for the others points near them; a temperature."""
    noise = torch.Generator().manual_seed(pairs)
    first = space.project(torch.randn(pairs, space.dim, generator=noise) / math.sqrt(space.dim))
    points = {roles[0]: first}
    for role in roles[1:]:
        points[role] = space.project(first + torch.randn(pairs, space.dim, generator=noise) / math.sqrt(space.dim))
    return {name: x.requires_grad_() for name, x in {**points, "log_scale": torch.tensor(math.log(1 / 0.07))}.items()}


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Side:
    """What is measured beside another."""

    name: str
    objective: str
    impl: str


def sides(objective: str, beside: str) -> tuple[Side, Side]:
    if beside:
        return Side(beside, beside, "tiled"), Side(objective, objective, "tiled")
    return Side("eager", objective, "eager"), Side("tiled", objective, "tiled")


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory and time of the contrastive loss, one way beside another.")
    parser.add_argument("--objective", choices=list(OBJECTIVES), default="clip")
    parser.add_argument("--beside", choices=list(OBJECTIVES), default="", help="another objective, both in tiles")
    parser.add_argument("--pairs", type=int, nargs="+", default=[2048, 4096, 8192, 16384])
    parser.add_argument("--space", choices=SPACES, default="sphere", help=f"products have {SPHERES} spheres")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.objective}, {options.space}, d = {options.dim}, float32, CPU, {options.threads} thread(s)")
    first, second = sides(options.objective, options.beside)
    columns = [f"{side.name} {unit}" for unit in ("MiB", "s") for side in (first, second)]
    shares = [f"{second.name}/{first.name}, {unit}" for unit in ("MiB", "s")]
    further = [] if options.beside else ["gradient diff."]  # of the same loss
    print(f"{'pairs N':>8}" + "".join(f"{name:>20}" for name in [*columns, *shares, *further]))
    fresh = ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"), max_tasks_per_child=1)
    with fresh as processes:
        for pairs in options.pairs:
            arguments = (options.space, pairs, options.dim, options.threads, options.repeats)
            one, other = (
                processes.submit(measure, side.objective, side.impl, *arguments).result() for side in (first, second)
            )
            figures = [f"{one.peak / MEBIBYTE:,.0f}", f"{other.peak / MEBIBYTE:,.0f}"]
            figures += [f"{one.seconds:.2f}", f"{other.seconds:.2f}"]
            figures += [f"{other.peak / one.peak:.3f}", f"{other.seconds / one.seconds:.2f}"]
            figures += [f"{relative_difference(other, one):.1e}"] if further else []
            print(f"{pairs:>8,}" + "".join(f"{figure:>20}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
