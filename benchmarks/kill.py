"""Does a run that is killed again and again end like one that is left alone? `python benchmarks/kill.py`

Trains twice: once undisturbed, once with `kill -9` at random moments and `--resume` after each. Kills are aimed in turn
at any moment of training, at a checkpoint being written, and at a run that is just starting. Then every logged number
(loss, temperature, gradient norm, validation), the weights, the moving average, the optimizer's moments and the random
states are compared bit for bit. The exit code is 1 if anything differs.

    --shards          read the scenes from WebDataset shards, which are written first
    --ranks N         so many processes under torchrun. Either all of them are killed at once, torchrun first, or one of
                      them, and torchrun ends the others
    --recipe FILE     another recipe; it should save often (checkpoint_every = 2) and log every step
    --set KEY=VALUE   change a setting, for example training.workers=2
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from random import Random

import torch
from safetensors.torch import load_file

from equipoise.io.atomic import LEFTOVER
from equipoise.io.folder_lock import LOCK
from equipoise.models.folder import step_folders, step_number
from equipoise.training.logging.metrics import read_metrics

SCENES = """
extends = "demo"
[data]
train_size = 256
validation_size = 16
test_size = 16
"""
SHARDS = """
[data]
name = "shards"
train = "{folder}/train/*.tar"
validation = "{folder}/test/*.tar"
test = "{folder}/test/*.tar"
[tokens]
vocabulary = 600
context = 64
[preprocess]
size = 32
crop_scale = [0.5, 1.0]
[text]
name = "causal-nano"
[space]
dim = 64
"""
TRAINING = """
[image]
name = "vit-nano"
patch = 8
patch_dropout = 0.5
layers = 2
[training]
device = "cpu"
steps = {steps}
batch_size = 16
warmup_steps = 4
ema = 0.9
log_every = 1
evaluate_every = 5
checkpoint_every = 2
"""
BY_THE_CLOCK = ("seconds", "pairs_per_second")
PATIENCE = 300.0  # seconds without progress before a run counts as hung


def main() -> int:
    options = _options()
    random = Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="equipoise-kill-") as scratch:
        here = Path(scratch)
        data = shards(here) if options.shards else SCENES
        (here / "kill.toml").write_text(data + TRAINING.format(steps=options.steps))
        recipe = options.recipe or here / "kill.toml"
        settings = [word for setting in options.set for word in ("--set", setting)]
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}"]
        start = [sys.executable, *(torchrun if options.ranks > 1 else ()), "-m", "equipoise.cli"]
        command = [*start, "train", str(recipe), *settings, "--resume", "--out"]
        seconds = train(command, here / "undisturbed")
        print(f"undisturbed: {seconds:.0f} s\n")
        print(f"{'kill':>4}  {'aimed at':<11}{'of':<9}{'step':>5}{'saved':>7}  half-written")
        kills = 0
        for aim in cycle(AIMS):
            victims = random.choice(["all", "one rank"]) if options.ranks > 1 else "all"
            if kills == options.kills or not killed(command, here / "killed", aim, victims, random):
                break
            kills += 1
            step, saved, halves = remains(here / "killed")
            print(f"{kills:>4}  {aim:<11}{victims:<9}{step:>5}{saved:>7}  {', '.join(halves)}", flush=True)
        train(command, here / "killed")
        return verdict(here, kills, options.kills)


def train(command: list[str], folder: Path) -> float:
    """To the end, undisturbed; seconds."""
    start = time.monotonic()
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        sys.exit(f"training failed with code {done.returncode}:\n{done.stderr}")
    return time.monotonic() - start


def shards(here: Path) -> str:
    """The data of a recipe that reads scenes from files, which are written now."""
    for split, size in (("train", 256), ("test", 16)):
        write = ["scenes", "write", str(here / split), "--split", split, "--size", "48", "--per-shard", "64"]
        few = ["--set", f"data.{split}_size={size}"]
        subprocess.run([sys.executable, "-m", "equipoise.cli", *write, *few], check=True, capture_output=True)
    return SHARDS.format(folder=here)


def killed(command: list[str], folder: Path, aim: str, victims: str, random: Random) -> bool:
    """Start or resume the run and kill it; whether it was still running."""
    run = subprocess.Popen(
        [*command, str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    for _ in AIMS[aim](folder, random):
        if run.poll() is not None:
            break
        time.sleep(0.0005)
    alive = run.poll() is None
    if alive and victims == "all":
        for process in [run.pid, *offspring(run.pid)]:
            kill(process)
    elif alive:
        kill(random.choice(children(run.pid)))
    elif run.returncode:
        sys.exit(f"the resumed run failed with code {run.returncode}; run it by hand: {shlex.join(command)} {folder}")
    run.wait()
    return alive


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def offspring(process: int) -> list[int]:
    """Ranks and loaders; torchrun gives each rank a session of its own, so that no signal to a group reaches all."""
    born = children(process)
    return [*born, *(younger for child in born for younger in offspring(child))]


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    with suppress(FileNotFoundError, ProcessLookupError):
        return [int(child) for task in tasks for child in task.read_text().split()]
    return []


def any_moment(folder: Path, random: Random) -> Iterator[None]:
    yield from until(saves_more_than(folder))
    yield from pause(random.uniform(0, 1.0))


def writing(folder: Path, random: Random) -> Iterator[None]:
    yield from until(saves_more_than(folder))
    yield from until(lambda: any(step > newest(folder) for step in steps_begun(folder)))
    yield from pause(random.uniform(0, 0.01))


def starting(folder: Path, random: Random) -> Iterator[None]:
    """From the moment the folder is this run's, through reading the checkpoint, to the first steps."""
    launched = time.time()
    yield from until(lambda: changed_at(folder / LOCK) > launched)
    yield from pause(random.uniform(0, 4.0))


AIMS: dict[str, Callable[[Path, Random], Iterator[None]]] = {
    "any moment": any_moment,
    "writing": writing,
    "starting": starting,
}


def saves_more_than(folder: Path) -> Callable[[], bool]:
    """Whether the run has come further than it was when this was called."""
    before = newest(folder)
    return lambda: newest(folder) > before


def changed_at(file: Path) -> float:
    return file.stat().st_mtime if file.exists() else 0.0


def newest(folder: Path) -> int:
    return max(map(step_number, step_folders(folder)), default=0)


def until(condition: Callable[[], bool]) -> Iterator[None]:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"no progress for {PATIENCE:.0f} s: the run hangs")
        yield


def pause(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def half_written(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*") if LEFTOVER.fullmatch(path.name))


def steps_begun(folder: Path) -> list[int]:
    """Of checkpoints being written, or removed."""
    names = (LEFTOVER.sub(r"\g<name>", name) for name in half_written(folder / "checkpoints"))
    return [step_number(Path(name)) for name in names if name != "best"]


def remains(folder: Path) -> tuple[int, int, list[str]]:
    """The last step logged, the newest checkpoint, and what was being written."""
    steps = [int(record["step"]) for record in read_metrics(folder / "metrics.jsonl")]
    return max(steps, default=0), newest(folder), half_written(folder / "checkpoints") + half_written(folder)


def verdict(here: Path, kills: int, wanted: int) -> int:
    one, other = here / "undisturbed", here / "killed"
    checks: dict[str, tuple[Sized, Sized]] = {"logged numbers": (logged(one), logged(other))}
    last = step_folders(one)[-1].relative_to(one)
    sharded = sorted(path.relative_to(one) for path in (one / last).glob("sharded/*"))
    for file in ("model.safetensors", "checkpoints/best/model.safetensors", last / "training.safetensors", *sharded):
        checks[str(file)] = (load_file(one / file), load_file(other / file))
    print(f"\nafter {kills} kills:")
    same = {name: identical(a, b) for name, (a, b) in checks.items()}
    for name, (values, _) in checks.items():
        print(f"{len(values):>6} of {name:<68}{'identical' if same[name] else 'DIFFERENT'}")
    if kills < wanted:
        print(f"the run ended after {kills} kills; give more --steps for {wanted}")
    return 0 if all(same.values()) and kills == wanted else 1


def logged(folder: Path) -> list[str]:
    """Every record but what the clock says; as text, so that every bit counts and NaN equals NaN."""
    records = read_metrics(folder / "metrics.jsonl")
    return [json.dumps({k: v for k, v in record.items() if k not in BY_THE_CLOCK}) for record in records]


def identical(one: Sized, other: Sized) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    return one == other


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipe", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--shards", action="store_true")
    parser.add_argument("--ranks", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
