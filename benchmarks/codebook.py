"""Peak memory and time of the code book's readout, tiled against all scores at once: `python benchmarks/codebook.py`.

Forward and backward from projected tokens to vectors: relevance, sparsemax, sum of codes. "Materialised" keeps the
scores of all tokens and codes [N, P, C] and lets autograd differentiate their maximum. Each case runs in a process of
its own (Linux); memory is the highest resident size above the inputs.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time

import torch
from resident import Resident
from torch import Tensor

import equipoise as eq
from equipoise.ops.max_relevance import pooled_relevance

WAYS = ("tiled", "materialised")


def vectors(way: str, queries: Tensor, mask: Tensor, codes: Tensor) -> Tensor:
    if way == "tiled":
        relevance = pooled_relevance(queries, mask, codes)
    else:
        relevance = (queries @ codes.T).masked_fill(~mask[..., None], -torch.inf).amax(1)
    return eq.sparsemax(relevance) @ codes


def measure(way: str, samples: int, tokens: int, count: int, width: int, scale: float) -> None:
    """Print the bytes and the seconds of one forward and backward pass, and the length of the tokens' gradient."""
    torch.set_num_threads(1)
    make = torch.Generator().manual_seed(0)
    queries = torch.randn(samples, tokens, width, generator=make) * (scale / math.sqrt(width))
    codes, mask = torch.randn(count, width, generator=make), torch.ones(samples, tokens, dtype=torch.bool)
    queries.requires_grad_(), codes.requires_grad_()
    resident, start = Resident(), time.perf_counter()
    found = vectors(way, queries, mask, codes)
    found.square().sum().backward()
    seconds = time.perf_counter() - start
    assert queries.grad is not None
    print(resident.peak(), seconds, float(queries.grad.norm()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory and time of the code book's readout.")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--tokens", type=int, nargs="+", default=[49, 196])
    parser.add_argument("--codes", type=int, default=16_384)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--one", choices=WAYS, help="measure this way alone, in this process")
    options = parser.parse_args()
    sizes = (options.codes, options.width, options.scale)
    if options.one:
        measure(options.one, options.samples, options.tokens[0], *sizes)
        return
    print(
        "| P | tiled, bytes | materialised, bytes | ratio | tiled, s | materialised, s | gradient lengths differ by |"
    )
    print("|---|---|---|---|---|---|---|")
    for tokens in options.tokens:
        cases = [[*sys.argv, "--one", way, "--tokens", str(tokens)] for way in WAYS]
        runs = [subprocess.run([sys.executable, *case], check=True, capture_output=True, text=True) for case in cases]
        (mine, fast, norm), (theirs, slow, other) = (map(float, run.stdout.split()) for run in runs)
        apart = abs(norm - other) / other
        cells = f"{tokens} | {mine:,.0f} | {theirs:,.0f} | {theirs / mine:.1f} | {fast:.2f} | {slow:.2f} | {apart:.0e}"
        print(f"| {cells} |", flush=True)


if __name__ == "__main__":
    main()
