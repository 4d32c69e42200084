"""Sphere, PS(n, m) and Multi(n, m) on noisy scenes, with the same towers, pairs and steps.

    python benchmarks/multi.py                                      one GPU, two minutes
    python benchmarks/multi.py --steps 2000 --seeds 0 1 2           longer
    python benchmarks/multi.py --scenes 64 --batch 16 --steps 3 --seeds 0 --n 4 --m 2 --set image.layers=1

Recipe `clip-scenes-gpu-noisy` (30% of the scenes have another one's captions), its text tower made bidirectional for
all three, since only such a tower can have several class tokens. All read the very same token ids, cut to what Multi
leaves room for. The whole data lies on the device and is not cropped, so that a step waits for no processor. Every
variant takes the same number of steps; with --seconds-per-run that is what the slowest, Multi, manages in this time.
Prints a Markdown table: the mean over seeds, the lowest and the highest in brackets. `--out` writes all as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from equipoise.config import Run, load_run
from equipoise.data.rng import generator
from equipoise.data.sampling import EpochSampler
from equipoise.data.scenes import Scenes
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.evaluation.evaluate import evaluate
from equipoise.io.atomic import write_text
from equipoise.training.step import Step
from equipoise.types import Batch
from equipoise.workflows import build_model

BASE = ("text.name=bert-micro", "tokens.kind=wordpiece")
UNTIMED, TIMED = 10, 30  # steps before a clock runs, and while it does
COLUMNS = {
    "R@1 image → text": ("image_to_text", 100, "%"),
    "R@1 text → image": ("text_to_image", 100, "%"),
    "mAP@R image → text": ("image_to_text_map", 100, "%"),
    "mAP@R text → image": ("text_to_image_map", 100, "%"),
    "zero-shot shape": ("zero_shot", 100, "%"),
    "exp(t)": ("logit_scale", 1, ""),
    "step": ("seconds_a_step", 1000, " ms"),
}


class Resident:
    """All training pairs on a device: pictures, and the ids of all their captions."""

    def __init__(self, source: Scenes, tokens: CaptionTokenizer, size: int, device: torch.device):
        rows = range(len(source))
        parts = [rows[start : start + 512] for start in range(0, len(source), 512)]
        self.images = torch.cat([source.images(part, size, device) for part in parts])
        texts = [caption for row in rows for caption in source.pair(row).captions]
        ids, mask = tokens(texts, pad_to_context=True)
        shape = (len(source), -1, tokens.context)
        self.ids, self.lengths = ids.view(shape), mask.sum(1).view(len(source), -1)

    def batch(self, indices: Sequence[int], chance: torch.Generator, run: Run) -> Batch:
        """One caption of each, drawn anew, no wider than the longest of them needs."""
        rows, device = torch.tensor(indices), self.images.device
        chosen = torch.randint(self.ids.shape[1], (len(rows),), generator=chance)
        lengths = self.lengths[rows, chosen]
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        ids = self.ids[rows, chosen, : mask.shape[1]]
        images = run.preprocess.normalised(self.images[rows.to(device)])
        return Batch(images, ids.to(device), mask.to(device), rows.to(device))


class Judged(Scenes):
    """The test scenes, whose truth is worked out once for all runs."""

    def __init__(self, config: Scenes.Config, split: str):
        super().__init__(config, split)
        self._truths: dict[int, np.ndarray] = {}

    def relevance(self, indices: Sequence[int], captions: Sequence[str]) -> np.ndarray:
        if len(captions) not in self._truths:  # the same images and captions in every run
            self._truths[len(captions)] = super().relevance(indices, captions)
        return self._truths[len(captions)]


class Runner:
    """One variant from one seed."""

    def __init__(self, run: Run, tokens: CaptionTokenizer, data: Resident, device: torch.device):
        torch.manual_seed(run.seed)
        self.run, self.data = run, data
        self.model = build_model(run, tokens).to(device).train()
        self.step = Step(self.model, run.objective, run.training, device)
        self.order = EpochSampler(len(data.images), run.training.batch_size, run.seed)
        self.chance = generator(run.seed, "captions")

    def go(self, steps: int, done: int = 0) -> float:
        """Takes steps; gives seconds a step, those of the first few left out where there are more."""
        untimed = min(UNTIMED, steps - 1)
        for number in range(steps):
            if number == untimed:
                start = _now(self.data.images)
            self.step(self.data.batch(self.order.batch(done + number), self.chance, self.run), done + number + 1)
        return (_now(self.data.images) - start) / (steps - untimed)


def variants(options: argparse.Namespace) -> dict[str, list[str]]:
    n, m = options.n, options.m
    product = ["space.name=product_sphere", f"space.n={n}", f"space.m={m}"]
    return {
        f"sphere({n * m})": ["space.name=sphere", f"space.dim={n * m}"],
        f"PS({n}, {m})": product,
        f"Multi({n}, {m})": [*product, "readout.name=class_tokens"],
    }


def main() -> None:
    options = _options()
    fixed = [*BASE, f"data.train_size={options.scenes}", f"training.batch_size={options.batch}", *options.set]
    runs = {name: load_run("clip-scenes-gpu-noisy", [*fixed, *space]).run for name, space in variants(options).items()}
    widest = runs[f"Multi({options.n}, {options.m})"]
    device = widest.training.torch_device()
    began = time.perf_counter()
    source, test = Scenes(widest.data, "train"), Judged(widest.data, "test")
    captions = (caption for row in range(len(source)) for caption in source.pair(row).captions)
    tokens = CaptionTokenizer.from_config(widest.caption_tokens(), captions)
    data = Resident(source, tokens, widest.preprocess.size, device)
    steps = options.steps
    if options.seconds_per_run:
        seconds = Runner(widest, tokens, data, device).go(UNTIMED + TIMED)
        steps = max(1, round(options.seconds_per_run / seconds))
    print(f"{options.scenes:,} scenes drawn in {time.perf_counter() - began:.0f} s; {steps} steps of {options.batch}")
    found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    for seed in options.seeds:
        for name, run in runs.items():
            training = replace(run.training, steps=steps, warmup_steps=max(1, steps // 10))
            found[name].append(measure(replace(run, seed=seed, training=training), tokens, data, test, device))
            print(f"seed {seed}, {name}: {found[name][-1]}", flush=True)
    print("\n" + "\n".join(table(found)))
    if options.out:
        facts = {"steps": steps, "batch": options.batch, "scenes": options.scenes, "seeds": options.seeds}
        about = {**facts, "set": options.set, "device": _name(device), "torch": torch.__version__}
        write_text(options.out, json.dumps({**about, "found": found}, indent=1) + "\n")


def measure(run: Run, tokens: CaptionTokenizer, data: Resident, test: Judged, device: torch.device) -> dict[str, float]:
    runner = Runner(run, tokens, data, device)
    seconds = runner.go(run.training.steps)
    findings = evaluate(runner.model, test, run.evaluation)
    pairs, matching = findings["retrieval"].metrics, findings["matching"].metrics
    ways = ("image_to_text", "text_to_image")
    return {
        **{way: pairs[f"{way}_R@1"] for way in ways},
        **{f"{way}_map": matching[f"{way}_mAP@R"] for way in ways},
        "zero_shot": findings["zero_shot"].metrics["acc1"] if "zero_shot" in findings else math.nan,
        "logit_scale": float(runner.model.log_scale.detach().exp()),
        "seconds_a_step": seconds,
    }


def table(found: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    lines = ["| space | " + " | ".join(COLUMNS) + " | added |", "|---|" + "---:|" * (len(COLUMNS) + 1)]
    first = _mean(next(iter(found.values())), "seconds_a_step")
    for name, results in found.items():
        cells = [_cell(results, *column) for column in COLUMNS.values()]
        lines.append(f"| {name} | {' | '.join(cells)} | {100 * (_mean(results, 'seconds_a_step') / first - 1):+.1f}% |")
    return lines


def _mean(results: Sequence[Mapping[str, float]], key: str) -> float:
    return statistics.mean(result[key] for result in results)


def _cell(results: Sequence[Mapping[str, float]], key: str, factor: float, unit: str) -> str:
    values = [factor * result[key] for result in results]
    return f"{statistics.mean(values):.1f}{unit} ({min(values):.1f}-{max(values):.1f})"


def _now(tensor: Tensor) -> float:
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
    return time.perf_counter()


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Sphere, PS(n, m) and Multi(n, m) on noisy scenes.")
    parser.add_argument("--n", type=int, default=32, help="dimensions of a sphere")
    parser.add_argument("--m", type=int, default=8, help="spheres, and class tokens of Multi")
    parser.add_argument("--scenes", type=int, default=20_000, help="to train on")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seconds-per-run", type=float, default=0.0, help="instead of --steps: what Multi does in it")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a further setting")
    parser.add_argument("--out", type=Path, help="a JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
