"""Our sparsemax beside entmax's, forward and backward, in one run: `python benchmarks/sparsemax.py`.

Scores are normal and stretched by `spread`, which decides how many of them get a share: those of a code book at the
start of training are between the last two rows. Each figure is the median of `--repeats`, the two taken in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import entmax
import torch
from torch import Tensor

import equipoise as eq


def seconds(function: Callable[[Tensor], Tensor], scores: Tensor, upstream: Tensor) -> float:
    leaf = scores.clone().requires_grad_()
    start = time.perf_counter()
    function(leaf).backward(upstream)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of sparsemax beside entmax.")
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--codes", type=int, nargs="+", default=[512, 16_384, 24_576])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| C | spread | shares a row | ours ms | entmax ms | ratio |\n|---|---|---|---|---|---|")
    for count in options.codes:
        for spread in (10.0, 1.0, 0.01, 0.001):
            make = torch.Generator().manual_seed(0)
            scores = spread * torch.randn(options.rows, count, generator=make)
            upstream = torch.randn(options.rows, count, generator=make)
            times = [
                (seconds(eq.sparsemax, scores, upstream), seconds(entmax.sparsemax, scores, upstream))
                for _ in range(options.repeats)
            ]
            mine, theirs = (1000 * statistics.median(both[side] for both in times) for side in (0, 1))
            shares = float((eq.sparsemax(scores) > 0).sum(-1).float().mean())
            print(
                f"| {count} | {spread} | {shares:.0f} | {mine:.1f} | {theirs:.1f} | {theirs / mine:.1f} |", flush=True
            )


if __name__ == "__main__":
    main()
