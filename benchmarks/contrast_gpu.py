"""Time, memory and error of a contrastive loss on a GPU: peers, eager, tiled and fused in one table.

    python benchmarks/contrast_gpu.py --pairs 4096 32768 65536         # every row of InfoNCE
    python benchmarks/contrast_gpu.py --pairs 16384 --space euclidean  # by distances; or geodesic, on 8 spheres
    python benchmarks/contrast_gpu.py --pairs 16384 --form softclip    # its whole loss; or sigmoid
    python benchmarks/contrast_gpu.py --pairs 16384 --form softclip --sweep    # how the fused kernels are best cut
    python benchmarks/contrast_gpu.py --pairs 16384 --form softclip --profile  # where the time of "fused bf16" goes
    python benchmarks/contrast_gpu.py --smoke                          # a run of everything on the processor, tiny

Time is the median of forward and backward by CUDA events, after a warm-up; memory the peak above the inputs, gradients
included. Errors are of the gradients of some samples and of log_scale (and the bias), relative to the largest entry,
against float64 computed from the same rounded inputs. "x InfoNCE" is the time beside that of our fused InfoNCE on the
same images and texts, of the same type, in the same run. A row that fails says why, and the others go on.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys

import torch
from contrast_infonce import infonce
from contrast_sigmoid import sigmoid
from contrast_softclip import softclip
from contrast_subject import Row, Subject, errors
from gpu_timing import GIBIBYTE, forward_time, measure, profile, timed
from torch import Tensor


def subject_for(options: argparse.Namespace) -> Subject:
    return {"infonce": lambda: infonce(options.space), "softclip": softclip, "sigmoid": sigmoid}[options.form]()


def table(options: argparse.Namespace) -> None:
    subject = subject_for(options)
    ratio = f"{'x InfoNCE':>11}" if subject.beside else ""
    print(f"{'pairs':>9}  {'':<24}{'ms':>10}{'GiB above':>11}{'TFLOP/s':>9}{ratio}{'grad error':>12}{'log_scale':>11}")
    for n in options.pairs:
        wanted: dict[torch.dtype, tuple[Tensor, ...]] = {}
        beside: dict[torch.dtype, float] = {}
        for row in subject.rows:
            if (options.only and not any(word in row.name for word in options.only)) or n > row.most:
                continue
            inputs = subject.inputs(n, options.dim, row.dtype, options.device)
            if n <= options.checked and row.dtype not in wanted:
                wanted[row.dtype] = subject.reference(*inputs)
            if subject.beside and row.dtype not in beside:
                beside[row.dtype] = report(n, subject.beside, inputs[:3], None, None, options.seconds)
            report(n, row, inputs, wanted.get(row.dtype) if row.exact else None, beside.get(row.dtype), options.seconds)


def report(
    n: int,
    row: Row,
    inputs: tuple[Tensor, ...],
    wanted: tuple[Tensor, ...] | None,
    beside: float | None,
    seconds: float,
) -> float:
    """One line; its milliseconds."""
    dtype = {torch.bfloat16: "bf16", torch.float32: "fp32"}[inputs[0].dtype]
    name = f"{n:>9,}  {row.name if dtype in row.name else f'{row.name} {dtype}':<24}"
    milliseconds = float("nan")
    try:
        milliseconds, peak, grads = measure(row.loss, inputs, seconds)
    except Exception as problem:
        lines = str(problem).splitlines() or [""]
        print(f"{name}  fails: {type(problem).__name__}: {lines[0][:150]}", flush=True)
        if not isinstance(problem, torch.OutOfMemoryError):
            print("\n".join(f"    {line[:200]}" for line in lines[1:6]), file=sys.stderr, flush=True)
    else:
        ratio = "" if beside is None else f"{milliseconds / beside:>11.2f}"
        wrong = "" if wanted is None else "{:>12.1e}{:>11.1e}".format(*errors(grads, wanted))
        rate = 8 * n * n * inputs[0].shape[1] / milliseconds / 1e9
        print(f"{name}{milliseconds:>10.2f}{peak / GIBIBYTE:>11.3f}{rate:>9.0f}{ratio}{wrong}", flush=True)
    finally:
        if inputs[0].is_cuda:
            torch.cuda.empty_cache()
    return milliseconds


def limits(options: argparse.Namespace) -> None:
    """What the library's products of a chunk reach by themselves."""
    from equipoise.kernels.triton.matmul import add_product

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
    if options.form == "infonce":
        limits(options)
    subject = subject_for(options)
    for n in options.pairs:
        print(f"{n:>9,} bf16, plan{'':<32}{'forward':>9}{'both':>9}{'GiB above':>11}")
        inputs = subject.inputs(n, options.dim, torch.bfloat16, options.device)
        for name, plan in subject.plans():
            try:
                loss = subject.by_plan(plan)
                both, peak, _ = measure(loss, inputs, options.seconds / 3)
                forward = forward_time(loss, inputs, options.seconds / 6)
                print(f"{'':>9} {name:<42}{forward:>9.2f}{both:>9.2f}{peak / GIBIBYTE:>11.3f}", flush=True)
            except Exception as problem:
                first = (str(problem).splitlines() or [""])[0]
                print(f"{'':>9} {name:<42}  fails: {type(problem).__name__}: {first[:120]}", flush=True)


def profiled(options: argparse.Namespace) -> None:
    subject = subject_for(options)
    row = next(row for row in subject.rows if row.name == "fused bf16")
    profile(row.loss, subject.inputs(options.pairs[0], options.dim, row.dtype, options.device))


def main() -> None:
    parser = argparse.ArgumentParser(description="A contrastive loss on a GPU: time, memory and error beside peers.")
    parser.add_argument("--pairs", type=int, nargs="+", default=[4096, 16384, 32768, 65536])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--form", choices=("infonce", "softclip", "sigmoid"), default="infonce")
    parser.add_argument("--space", choices=("sphere", "euclidean", "geodesic"), default="sphere", help="of InfoNCE")
    parser.add_argument("--only", nargs="+", help="rows whose names contain one of these words")
    parser.add_argument("--seconds", type=float, default=0.6, help="spent timing each row")
    parser.add_argument("--checked", type=int, default=65536, help="up to how many pairs errors are computed")
    parser.add_argument("--tune", "--sweep", action="store_true", help="sweep the plans of the fused kernels instead")
    parser.add_argument("--profile", action="store_true", help="the kernels of the fused loss and their times instead")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the processor, Triton interpreted")
    options = parser.parse_args()
    if options.smoke:
        os.environ["TRITON_INTERPRET"] = "1"
        options.device, options.pairs, options.dim, options.seconds = "cpu", [130], 32, 0.0
    where = torch.cuda.get_device_name() if options.device == "cuda" else "processor"
    title = subject_for(options).title
    print(f"{title}, d = {options.dim}, forward and backward, {where}, torch {torch.__version__}")
    (profiled if options.profile else tune if options.tune else table)(options)


if __name__ == "__main__":
    main()
