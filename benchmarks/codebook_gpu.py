"""Time, memory and error of the code book's readout on a GPU: `python benchmarks/codebook_gpu.py`.

Forward and backward from projected tokens to vectors: relevance, sparsemax, sum of codes. "materialised" keeps the
scores of all tokens and codes and lets autograd differentiate their maximum, with entmax's sparsemax if there.
Figures as in `contrast_gpu.py`; the error is of the tokens' gradients, relative to the largest entry, beside the
materialised ones in float64 of the first samples. --smoke: tiny, on the processor, Triton interpreted.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from contextlib import contextmanager

import torch
from gpu_timing import GIBIBYTE, measure
from torch import Tensor

CHECKED = 8  # samples whose gradients are compared


@contextmanager
def kernels(on: bool):
    """With or without the Triton kernels, whatever the package would choose."""
    from equipoise.ops import max_relevance_fused

    usual = max_relevance_fused.usable
    max_relevance_fused.usable = lambda _: on
    try:
        yield
    finally:
        max_relevance_fused.usable = usual


def materialised(queries: Tensor, codes: Tensor) -> Tensor:
    try:
        from entmax import sparsemax
    except ImportError:
        from equipoise import sparsemax
    return (sparsemax((queries @ codes.T).amax(1), -1) @ codes).float().square().sum()


def ours(on: bool) -> Callable[[Tensor, Tensor], Tensor]:
    from equipoise import sparsemax
    from equipoise.ops.max_relevance import pooled_relevance

    def loss(queries: Tensor, codes: Tensor) -> Tensor:
        with kernels(on):
            mask = torch.ones(queries.shape[:2], dtype=torch.bool, device=queries.device)
            return (sparsemax(pooled_relevance(queries, mask, codes)).to(codes.dtype) @ codes).float().square().sum()

    return loss


def reference(queries: Tensor, codes: Tensor) -> Tensor:
    some = queries[:CHECKED].detach().double().requires_grad_()
    with kernels(False):
        return torch.autograd.grad(materialised(some, codes.detach().double()), some)[0]


def table(options: argparse.Namespace) -> None:
    noise = torch.Generator(options.device).manual_seed(0)
    new = {"generator": noise, "device": options.device}
    q = torch.randn(options.samples, options.tokens, options.width, **new) * (options.scale / math.sqrt(options.width))
    c = torch.randn(options.codes, options.width, **new)
    print(f"{'':<26}{'ms':>10}{'GiB above':>11}{'grad error':>12}")
    for dtype in (torch.bfloat16, torch.float32):
        inputs = q.to(dtype).requires_grad_(), c.to(dtype).requires_grad_()
        wanted = reference(*inputs)
        for name, loss in {"materialised": materialised, "tiled": ours(False), "fused": ours(True)}.items():
            label = f"{name} {str(dtype).removeprefix('torch.')}"
            try:
                milliseconds, peak, grads = measure(loss, inputs, options.seconds)
            except Exception as problem:
                print(f"{label:<26}  fails: {type(problem).__name__}: {(str(problem).splitlines() or [''])[0][:150]}")
                continue
            wrong = float((grads[0][:CHECKED].double() - wanted).abs().max() / wanted.abs().max())
            print(f"{label:<26}{milliseconds:>10.2f}{peak / GIBIBYTE:>11.3f}{wrong:>12.1e}", flush=True)
            del grads
            if options.device == "cuda":
                torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description="The code book on a GPU: time, memory and error.")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=196)
    parser.add_argument("--codes", type=int, default=16_384)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--seconds", type=float, default=0.6, help="spent timing each row")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        os.environ["TRITON_INTERPRET"] = "1"
        options.device, options.seconds = "cpu", 0.0
        options.samples, options.tokens, options.codes, options.width = 4, 20, 200, 32
    where = torch.cuda.get_device_name() if options.device == "cuda" else "processor"
    print(f"{options.samples} x {options.tokens} tokens, {options.codes:,} codes, {where}, torch {torch.__version__}")
    table(options)


if __name__ == "__main__":
    main()
