"""A training step as processes are added, each with as many pairs: `python benchmarks/weak_scaling.py` (Linux).

The small CLIP of `train_step.py` under DDP, float32, one thread a process, over gloo. By the clock is what one waits
for, which says little where processes share cores; the processor's seconds are a process's own, exchange among them,
and say what adding processes costs each. Sent is what a process wrote to its sockets in a step, and beside it the
formulas of `scale.py`: points for the loss, gradients of the weights. `--device cuda`: all processes on one GPU over
NCCL, which is told that they are different hosts, so that its bytes pass through sockets there too; they are counted on
the machine's loopback, a process's share of it, so that nothing else may use that.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

import torch
import torch.distributed as dist
from caption_lengths import FLICKR8K_MEAN, drawn_lengths
from clip_sizes import MODELS
from ranks import MEBIBYTE, over_loopback, written
from scale import WAYS
from train_step import BATCHES, Task, our_model, trimmed

from equipoise.objectives import CLIP
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.settings import Training
from equipoise.training.step import Step


class Measured(NamedTuple):
    clock: float  # seconds of the median step
    processor: float
    sent: float  # bytes a step
    formula: float


def measure(options: argparse.Namespace, rank: int, world: int) -> Measured:
    sizes, device = MODELS[options.model], torch.device(options.device)
    settings = Training(warmup_steps=0, exchange=options.exchange, precision="float32")
    model = our_model(sizes).to(device).train()
    weights = sum(p.numel() for p in model.parameters())
    step = Step(model, CLIP(), settings, device, Ranks(rank, world))
    lengths = drawn_lengths(BATCHES * options.per_rank, FLICKR8K_MEAN).view(BATCHES, -1)
    batches = [trimmed(b) for b in Task(sizes, lengths, options.device, "float32", 0, 0, 1).batches()]
    clocks: tuple[list[float], list[float]] = ([], [])
    sent: list[float] = []
    count, among = (over_loopback, world) if options.device == "cuda" else (written, 1)
    for number in range(options.steps + 2):
        before = time.perf_counter(), time.process_time(), count()
        step(batches[number % BATCHES], number + 1).loss.total.item()
        clocks[0].append(time.perf_counter() - before[0])
        clocks[1].append(time.process_time() - before[1])
        sent.append((count() - before[2]) / among)
    points = WAYS[options.exchange](world) * options.per_rank * world * sizes.dim * 4
    formula = points + 2 * (world - 1) / world * weights * 4 if world > 1 else 0
    return Measured(*(statistics.median(x[2:]) for x in (*clocks, sent)), formula)


def one_rank(rank: int, world: int, store: str, result: Connection, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    os.environ["NCCL_HOSTID"] = str(rank)
    backend = "cpu:gloo,cuda:nccl" if options.device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
    result.send(measure(options, rank, world))
    dist.destroy_process_group()


def on_ranks(world: int, options: argparse.Namespace) -> Measured:
    """The most of all ranks."""
    spawn = get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ends = [spawn.Pipe(duplex=False) for _ in range(world)]
        ranks = [
            spawn.Process(target=one_rank, args=(rank, world, f"{folder}/store", end, options))
            for rank, (_, end) in enumerate(ends)
        ]
        for process in ranks:
            process.start()
        for _, end in ends:
            end.close()  # so that a process that dies is an end of file here
        found = [receiver.recv() for receiver, _ in ends]
        for process in ranks:
            process.join()
    return Measured(*(max(values) for values in zip(*found, strict=True)))


def print_table(found: Sequence[tuple[int, Measured]], per_rank: int) -> None:
    columns = ("processes", "pairs", "ms by the clock", "ms of a processor", "of one", "sent, MiB", "by the formula")
    print(f"| {' | '.join(columns)} |\n|{'---:|' * len(columns)}")
    alone = found[0][1].processor
    for world, m in found:
        times = f"{m.clock * 1e3:,.0f} | {m.processor * 1e3:,.0f} | {m.processor / alone:.2f}"
        print(f"| {world} | {world * per_rank:,} | {times} | {m.sent / MEBIBYTE:.1f} | {m.formula / MEBIBYTE:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="A training step on more and more processes, as many pairs on each.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--per-rank", type=int, default=128, help="pairs of each process")
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--exchange", choices=tuple(WAYS), default="gathered")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=6, help="timed, after 2 that are not")
    options = parser.parse_args()
    print_table([(world, on_ranks(world, options)) for world in options.ranks], options.per_rank)


if __name__ == "__main__":
    main()
