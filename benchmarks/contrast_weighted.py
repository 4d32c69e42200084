"""Weighted pairs in the fused kernels beside the same without weights and beside tiles, on a GPU.

    python benchmarks/contrast_weighted.py [--size 16384] [--dim 512] [--seconds 1]

A row per space and form: milliseconds of forward and backward and memory above the inputs, and the largest difference
of a gradient to that of tiles in float32, in units of its largest entry.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from contrast_infonce import points, space_for
from gpu_timing import measure
from torch import Tensor

import equipoise as eq
from equipoise.targets.weighted import WeightedPairs

KINDS = {
    "cross-entropy, sphere": ("sphere", eq.CrossEntropy()),
    "cross-entropy, geodesic": ("geodesic", eq.CrossEntropy()),
    "cross-entropy, euclidean": ("euclidean", eq.CrossEntropy()),
    "sigmoid, sphere": ("sphere", eq.Sigmoid()),
}


def contrast(
    u: Tensor, v: Tensor, log_scale: Tensor, *, space: eq.Space, form: eq.Form, weights: Tensor | None, impl: str
) -> Tensor:
    target = eq.OneHot() if weights is None else WeightedPairs(eq.OneHot(), weights)
    return eq.contrast(u, v, log_scale=log_scale, space=space, target=target, form=form, impl=impl)


def main() -> None:
    parser = argparse.ArgumentParser(description="What weights of pairs cost in the fused kernels.")
    parser.add_argument("--size", type=int, default=16_384)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    print(f"{options.size:,} pairs of {options.dim} numbers, bfloat16\n")
    print("| | fused, no weights | fused, weights | tiled, weights | largest error |\n|---|---:|---:|---:|---:|")
    for name, (space, form) in KINDS.items():
        inputs = points(options.size, options.dim, torch.bfloat16, options.device, space)
        weights = torch.rand(options.size, generator=torch.Generator().manual_seed(0)).to(options.device)
        loss = partial(contrast, space=space_for(space, options.dim), form=form)
        plain = measure(partial(loss, weights=None, impl="fused"), inputs, options.seconds)
        fused = measure(partial(loss, weights=weights, impl="fused"), inputs, options.seconds)
        tiled = measure(partial(loss, weights=weights, impl="tiled"), inputs, options.seconds)
        single = tuple(one.detach().float().requires_grad_() for one in inputs)
        exact = measure(partial(loss, weights=weights, impl="tiled"), single, 0.0)[2]
        error = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(fused[2], exact, strict=True))
        cells = [f"{ms:.2f} ms, {memory / 2**30:.2f} GiB" for ms, memory, _ in (plain, fused, tiled)]
        print(f"| {name} | " + " | ".join(cells) + f" | {error:.1e} |", flush=True)


if __name__ == "__main__":
    main()
