"""What mixups cost: `python benchmarks/mixup.py step` and `python benchmarks/mixup.py loss` (Linux).

    step    one optimizer step of the demo's model with each objective, beside one of CLIP; they take turns
    loss    loss and gradients on N random pairs alone, CLIP in tiles, m³ in one block and in tiles; memory too

Seconds are the processor's on one thread, so that other work on the machine matters little: the median of a step, the
fastest pass of a loss. Memory is the highest resident size above what it was before the first pass, each row in a
process of its own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import torch
from resident import Resident

import equipoise as eq
from equipoise.config import load_run
from equipoise.data.batches import Batches
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.objectives import CLIP, M3Mix, Objective
from equipoise.training.step import Step
from equipoise.workflows import build_model

ONE = {"m2_weight": 0.0, "v_weight": 0.0, "l_weight": 0.0, "vl_weight": 0.0}
OBJECTIVES: dict[str, Objective] = {
    "clip": CLIP(),
    "m2, pseudo_code": M3Mix(**{**ONE, "m2_weight": 0.1}),
    "m2, released": M3Mix(**{**ONE, "m2_weight": 0.1}, reading="released"),
    "m2, proof": M3Mix(**{**ONE, "m2_weight": 0.1}, reading="proof"),
    "v": M3Mix(**{**ONE, "v_weight": 0.1}),
    "vl": M3Mix(**{**ONE, "vl_weight": 0.1}),
    "m3": M3Mix(),
}
MEBIBYTE = 2**20


def steps(recipe: str, batch_size: int, repeats: int) -> None:
    """All objectives on the same batches, in turn."""
    run = load_run(recipe, [f"data.train_size={4 * batch_size}", f"training.batch_size={batch_size}"]).run
    source = run.data.build("train")
    captions = (caption for index in range(len(source)) for caption in source.pair(index).captions)
    tokens = CaptionTokenizer.from_config(run.caption_tokens(), captions)
    batches = Batches(source, tokens, run.preprocess, batch_size=batch_size, seed=0)
    ready = [batches.batch(number) for number in range(4)]
    each = {}
    for name, objective in OBJECTIVES.items():
        torch.manual_seed(0)
        model = build_model(replace(run, objective=objective), tokens).train()
        each[name] = Step(model, objective, run.training, torch.device("cpu"))
    seconds: dict[str, list[float]] = {name: [] for name in each}
    for number in range(repeats + 1):
        for name, step in each.items():
            seconds[name].append(spent(lambda step=step, number=number: step(ready[number % 4], number + 1)))
    print(f"one step of {recipe}, batch {batch_size}, one thread, median of {repeats}")
    clip = statistics.median(seconds["clip"][1:])
    for name, times in seconds.items():
        middle = statistics.median(times[1:])
        print(f"{name:>18} {1000 * middle:8.1f} ms {middle / clip:6.2f} times CLIP")


def loss(objective: Objective, pairs: int, dim: int, repeats: int) -> tuple[float, int]:
    """Seconds and bytes; meant for a fresh process."""
    torch.set_num_threads(1)
    space = eq.Sphere(dim)

    def gradients(n: int) -> None:
        make = torch.Generator().manual_seed(n)
        points = [space.project(torch.randn(n, dim, generator=make)).requires_grad_() for _ in range(2)]
        objective(eq.Embeddings(*points), log_scale=3.0, space=space).total.backward()

    gradients(64)
    memory = Resident()
    fastest = min(spent(lambda: gradients(pairs)) for _ in range(repeats))
    return fastest, memory.peak()


def losses(sizes: list[int], dim: int, repeats: int) -> None:
    def mixed(impl: str) -> Objective:
        return M3Mix(of=CLIP(impl=impl), m2_scale_learned=False, impl=impl)

    rows = {"clip, tiled": CLIP(impl="tiled"), "m3, tiled": mixed("tiled"), "m3, eager": mixed("eager")}
    print(f"loss and gradients, sphere, d = {dim}, float32, one thread, fastest of {repeats}")
    for pairs in sizes:
        for name, objective in rows.items():
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                seconds, peak = fresh.submit(loss, objective, pairs, dim, repeats).result()
            print(f"{pairs:>8} pairs  {name:>12} {seconds:8.2f} s {peak / MEBIBYTE:9.0f} MiB", flush=True)


def spent(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="What mixups cost beside CLIP.")
    parser.add_argument("what", choices=("step", "loss"))
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--pairs", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=0, help="0: 12 steps, 2 losses")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "step":
        steps(options.recipe, options.batch, options.repeats or 12)
    else:
        losses(options.pairs, options.dim, options.repeats or 2)


if __name__ == "__main__":
    main()
