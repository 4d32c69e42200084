"""What many GPUs would do, on paper: `python benchmarks/scale.py [--gpus 8 64 512] [--plan]`.

Counts, of one training step of a CLIP: the arithmetic of towers and loss on each GPU, the bytes that each sends for the
loss and for the gradients of the weights, and the seconds these take at the speeds below. Speeds of one GPU were
measured (docs/performance.md); those of networks are datasheets'. Nothing here was measured on several GPUs.

With W ranks, N pairs in all, d dimensions and b bytes a number, a rank sends for the loss

    everything   2 (W - 1) / W · N d b               both sides are gathered
    gathered     2 (W - 1) / W · N d b               texts are gathered, what each rank made of them is summed
    ring         (3 W - 2) / W · N d b               texts go round twice, their gradients once, and home

and for P weights 2 (W - 1) / W · P b, as every ring all-reduce does. `--check` holds the first three against what
`benchmarks/ranks.py` counted. `--plan` is a plan for a billion pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from clip_sizes import MODELS, Sizes

TERA, GIGA, HOUR = 1e12, 1e9, 3600.0
WAYS = {
    "everything": lambda world: 2 * (world - 1) / world,
    "gathered": lambda world: 2 * (world - 1) / world,
    "ring": lambda world: (3 * world - 2) / world,
}
WEIGHTS = {"ViT-B-32": 151.3e6, "ViT-B-16": 149.6e6}
COUNTED = {  # MiB that a rank sent for 4,096 pairs of 512 float32 numbers over gloo (docs/ranks.md)
    ("everything", 2): 8, ("everything", 4): 12, ("gathered", 2): 10, ("gathered", 4): 14, ("ring", 2): 16,
    ("ring", 4): 20,
}  # fmt: skip


@dataclass(frozen=True)
class Speeds:
    """Of one H200 and its networks."""

    pairs: float = 14_231.0  # a second in training, ViT-B/32, 4,096 pairs, bf16, compiled: measured
    loss: float = 460 * TERA  # FLOP/s of the loss: measured
    inside: float = 450 * GIGA  # bytes/s that a GPU sends within its machine: NVLink 4
    outside: float = 50 * GIGA  # and to other machines: 400 Gbit/s a GPU
    machine: int = 8  # GPUs

    def network(self, world: int) -> float:
        """The slowest link of a ring over all."""
        return self.inside if world <= self.machine else self.outside


@dataclass(frozen=True)
class Step:
    """One step on each GPU."""

    pairs: int  # of the whole batch
    world: int
    way: str
    tower_flops: float
    loss_flops: float
    exchanged: float  # bytes sent for the loss
    reduced: float  # bytes sent for the weights' gradients
    seconds: tuple[float, float, float, float]  # of towers, loss, exchange and gradients

    @property
    def apart(self) -> float:
        """Seconds where nothing overlaps."""
        return sum(self.seconds)

    @property
    def together(self) -> float:
        """Seconds where the exchange hides behind the loss, and the gradients behind the towers, as far as they can."""
        towers, loss, exchange, gradients = self.seconds
        return max(towers, gradients) + max(loss, exchange)


def step(model: str, per_gpu: int, world: int, way: str, number: int, speeds: Speeds, tokens: int = 20) -> Step:
    """`number` bytes a number of a point; gradients of weights travel in float32."""
    sizes, pairs = MODELS[model], per_gpu * world
    inner = 6 * per_gpu**2 * sizes.dim  # the loss that `flops` counts, of a batch of one GPU
    tower = sizes.flops(torch.full((per_gpu,), tokens)) - inner
    rows = pairs if way == "everything" else per_gpu
    loss = 8.0 * rows * pairs * sizes.dim
    exchanged = WAYS[way](world) * pairs * sizes.dim * number
    reduced = 2 * (world - 1) / world * WEIGHTS[model] * 4
    network = speeds.network(world)
    rate = speeds.pairs * _forward(MODELS["ViT-B-32"], tokens) / _forward(sizes, tokens)
    seconds = (per_gpu / rate, loss / speeds.loss, exchanged / network, reduced / network)
    return Step(pairs, world, way, tower, loss, exchanged, reduced, seconds)


def _forward(sizes: Sizes, tokens: int) -> float:
    return sizes.flops(torch.full((1,), tokens))


def print_steps(model: str, per_gpu: Sequence[int], gpus: Sequence[int], number: int, speeds: Speeds) -> None:
    print(f"\n{model}, {number} bytes a number of a point; FLOPs and bytes of each GPU and step\n")
    columns = ("GPUs", "a GPU", "batch", "way", "towers TFLOP", "loss TFLOP", "loss sends MB", "weights send MB")
    times = ("towers ms", "loss ms", "exchange ms", "weights ms", "pairs/s, nothing overlaps", "all that can", "share")
    print(f"| {' | '.join((*columns, *times))} |\n|{'---:|' * (len(columns) + len(times))}")
    for world in gpus:
        for each in per_gpu:
            for way in ("gathered", "ring"):
                one = step(model, each, world, way, number, speeds)
                alone = step(model, each, 1, way, number, speeds)
                rates = [one.pairs / one.apart, one.pairs / one.together]
                share = rates[1] / world / (each / alone.apart)
                cells = [f"{world}", f"{each:,}", f"{one.pairs:,}", way, f"{one.tower_flops / TERA:,.1f}",
                         f"{one.loss_flops / TERA:,.2f}", f"{one.exchanged / 1e6:,.0f}", f"{one.reduced / 1e6:,.0f}",
                         *(f"{second * 1e3:,.1f}" for second in one.seconds), *(f"{rate:,.0f}" for rate in rates),
                         f"{share:.0%}"]  # fmt: skip
                print(f"| {' | '.join(cells)} |")


def print_check() -> None:
    print("\n| way | ranks | MiB by the formula | MiB counted |\n|---|---:|---:|---:|")
    for (way, world), counted in COUNTED.items():
        print(f"| {way} | {world} | {WAYS[way](world) * 4096 * 512 * 4 / 2**20:.0f} | {counted} |")


@dataclass(frozen=True)
class Plan:
    """What a billion pairs take, from assumptions that are said."""

    pairs: float = 1e9
    passes: float = 13.0  # of training: 13 billion samples seen, as LAION-400M's 32 epochs
    folds: int = 2  # judges, each trained on the pairs of the other fold, once
    rate: float = 14_231.0  # pairs a second and GPU in training
    forward: float = 3.0  # times as fast without a backward pass
    image_bytes: float = 27e3  # a JPEG of `data prepare --size 256`: measured (benchmarks/feed.py)
    text_bytes: float = 500.0  # caption, side data, the tar's own
    dim: int = 512
    fed: float = 788.0  # pairs a second and core from such JPEGs: measured (benchmarks/feed.py)
    prepared: float = 227.0  # originals a second and core that become such JPEGs: measured (the same, --prepare)
    dollars: float = 3.0  # a GPU and hour
    gpus: int = 64

    def rows(self) -> list[tuple[str, float, str]]:
        """What, how much, in which unit."""
        whole = self.pairs * (self.image_bytes + self.text_bytes)
        judges = (self.folds - 1) * self.pairs / self.rate / HOUR  # each sees (folds - 1) / folds of all
        scoring = self.pairs / (self.forward * self.rate) / HOUR
        training = self.passes * self.pairs / self.rate / HOUR
        hours = judges + 2 * scoring + training
        feed = self.rate * (self.image_bytes + self.text_bytes)
        return [
            ("shards", whole / TERA, "TB"),
            ("points of both sides, float16", self.pairs * self.dim * 2 * 2 / TERA, "TB"),
            ("thumbnails and records of an index, 3 kB each", self.pairs * 3e3 / TERA, "TB"),
            ("`data prepare` of all pairs, from 640 x 427", self.pairs / self.prepared / HOUR, "core-hours"),
            ("training the judges", judges, "GPU-hours"),
            ("scoring all pairs", scoring, "GPU-hours"),
            (f"training, {self.passes:g} passes", training, "GPU-hours"),
            ("embedding for search", scoring, "GPU-hours"),
            ("all of it", hours, "GPU-hours"),
            (f"all of it on {self.gpus} GPUs at 90%", hours / self.gpus / 0.9 / 24, "days"),
            (f"all of it at {self.dollars:g} dollars a GPU-hour", hours * self.dollars, "dollars"),
            ("reading, a GPU in training", feed / 1e6, "MB/s"),
            (f"reading, {self.gpus} GPUs in training", feed * self.gpus / GIGA, "GB/s"),
            ("read in all", whole * (self.passes + self.folds - 1 + 3) / 1e15, "PB"),
            ("cores that feed a GPU in training", self.rate / self.fed, "cores"),
            ("cores that feed a GPU that embeds", self.forward * self.rate / self.fed, "cores"),
            ("files of `embed`, 10,000 pairs each", self.pairs / 1e4, "files"),
        ]


def print_plan(plan: Plan) -> None:
    print("\n| a billion pairs | | |\n|---|---:|---|")
    for what, number, unit in plan.rows():
        print(f"| {what} | {number:,.0f} | {unit} |" if number >= 10 else f"| {what} | {number:,.1f} | {unit} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Many GPUs, on paper.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--per-gpu", type=int, nargs="+", default=[1024, 4096], help="pairs of the batch on each GPU")
    parser.add_argument("--model", choices=sorted(WEIGHTS), default="ViT-B-32")
    parser.add_argument("--bytes", type=int, default=4, help="a number of a point, when it travels")
    parser.add_argument("--check", action="store_true", help="formulas beside what was counted on processors")
    parser.add_argument("--plan", action="store_true", help="a billion pairs")
    options = parser.parse_args()
    if options.check:
        print_check()
    if options.plan:
        print_plan(Plan())
    if not options.check and not options.plan:
        print_steps(options.model, options.per_gpu, options.gpus, options.bytes, Speeds())


if __name__ == "__main__":
    main()
