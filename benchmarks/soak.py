"""Does a long run grow? `make soak`: 20,000 steps of a nano model, its memory and open files watched all the while.

The data is 64 scenes, so that 20,000 steps are thousands of epochs; it evaluates and saves as it goes. Resident memory
and open file descriptors are read from /proc, children counted in. After a first tenth, in which caches fill, a line is
fitted to the memory: the run is flat if it grows by less than 1% over the rest and no descriptor is left open.

    --steps N      default 20,000
    --workers N    processes that read data (default 0: a thread)

Prints a row per twentieth of the run. The exit status is 1 if it is not flat, or left a child or a temporary file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from nano import NANO

from equipoise.io.atomic import LEFTOVER
from equipoise.training.logging.metrics import read_metrics

RECIPE = (
    NANO
    + """[data]
train_size = 64
validation_size = 16
test_size = 16
[training]
device = "cpu"
steps = {steps}
batch_size = 8
ema = 0.99
workers = {workers}
log_every = {tenth}
evaluate_every = {tenth}
checkpoint_every = {tenth}
"""
)
ROWS, GROWTH = 20, 0.01
Sample = tuple[float, int, float, int]  # seconds, step, MiB, descriptors


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="equipoise-soak-") as scratch:
        here = Path(scratch)
        tenth = max(1, options.steps // 100)
        (here / "r.toml").write_text(RECIPE.format(steps=options.steps, workers=options.workers, tenth=tenth))
        command = [sys.executable, "-m", "equipoise", "train", str(here / "r.toml"), "--out", str(here / "run")]
        with (here / "said.txt").open("w") as said:
            run = subprocess.Popen(command, stdout=said, stderr=said)
            samples, children = watched(run, here / "run", options.every)
        if run.returncode:
            sys.exit(f"the run ended with {run.returncode}:\n{(here / 'said.txt').read_text()[-3000:]}")
        left = [path.name for path in (here / "run").rglob("*") if LEFTOVER.fullmatch(path.name)]
    orphans = [child for child in children if Path(f"/proc/{child}").exists()]
    return verdict(samples, options.steps, left, orphans)


def watched(run: subprocess.Popen[bytes], folder: Path, every: float) -> tuple[list[Sample], set[int]]:
    """Samples while it trains; what comes after, evaluation and report, is not training."""
    begun, samples, seen = time.monotonic(), list[Sample](), set[int]()
    while run.poll() is None:
        with suppress(OSError, ValueError, IndexError):
            family = [run.pid, *children(run.pid)]
            seen |= set(family[1:])
            memory, files = sum(map(resident, family)), sum(map(descriptors, family))
            records = read_metrics(folder / "metrics.jsonl") if folder.is_dir() else []
            step = int(max((record["step"] for record in records), default=0))
            samples.append((time.monotonic() - begun, step, memory, files))
        time.sleep(every)
    return samples, seen


def resident(process: int) -> float:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def descriptors(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def verdict(samples: list[Sample], steps: int, left: list[str], orphans: list[int]) -> int:
    print(f"{'step':>8}{'seconds':>9}{'MiB':>9}{'files':>7}")
    for row in np.linspace(0, len(samples) - 1, min(ROWS, len(samples))).astype(int):
        seconds, step, memory, files = samples[row]
        print(f"{step:>8}{seconds:>9.0f}{memory:>9.1f}{files:>7}")
    training = [sample for sample in samples if steps // 10 <= sample[1] < steps]
    if len(training) < 10:
        sys.exit("too few samples to judge by; give more --steps")
    at = np.array([sample[1] for sample in training], dtype=float)
    memory, files = (np.array([sample[place] for sample in training], dtype=float) for place in (2, 3))
    slope = np.polyfit(at, memory, 1)[0]
    growth = slope * (at[-1] - at[0]) / memory[0]
    early, late = np.median(files[: len(files) // 2]), np.median(files[len(files) // 2 :])
    flat = growth < GROWTH and late <= early and not left and not orphans
    print(
        f"\n{'flat' if flat else 'NOT FLAT'}: memory {memory[0]:.0f} -> {memory[-1]:.0f} MiB "
        f"({slope * 1e3:+.2f} MiB per 1,000 steps, {growth:+.2%} by the fitted line), descriptors {early:.0f} -> "
        f"{late:.0f}, {len(orphans)} children and {len(left)} temporary files left"
    )
    return 0 if flat else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between samples")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
