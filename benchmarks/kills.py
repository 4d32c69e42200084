"""Does every long command, killed again and again, end with the bytes of one that is left alone? `make kills`

Each command is run once undisturbed. Then it is started, killed by `kill -9` at a random moment of that time and
started again in the same folder, up to five times, and then left alone; then all files that it left are compared, and
the next folder is begun. Commands are forks of this process, so that a start costs milliseconds.

    --kills N          in all, shared by the commands (default 100)
    --only COMMAND     one of them alone; may be given several times
    --seed N           of the moments

Prints a line per command: kills, ends compared, the files that differ. The exit status is 1 if any does. Training with
several ranks, workers and aimed kills: `benchmarks/kill.py`.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import numpy as np
import torch
from nano import NANO
from PIL import Image

from equipoise.cli import main as equipoise
from equipoise.data.shard_writer import write_shard
from equipoise.io.atomic import LEFTOVER

TRAINED = f"""{NANO}[data]
train_size = 32
validation_size = 8
test_size = 8
[training]
device = "cpu"
steps = 6
batch_size = 8
ema = 0.9
log_every = 1
evaluate_every = 2
checkpoint_every = 1
"""
WIDTH, IMAGES = 8, 60
JUDGED = {
    **dict.fromkeys(("data.train", "data.validation", "data.test"), "{here}/f.npz"),
    **dict.fromkeys(("image.width", "text.width", "space.dim"), WIDTH),
    **dict.fromkeys(("image.dropout", "text.dropout"), 0.0),
    "shuffle.share": 0.3, "training.steps": 60, "training.batch_size": 20, "training.warmup_steps": 2,
    "training.learning_rate": 0.02, "training.evaluate_every": 20, "training.checkpoint_every": 5,
    "training.log_every": 5,
}  # fmt: skip
SETTINGS = " ".join(f"--set {key}={value}" for key, value in JUDGED.items())
COLOURS = ("red", "green", "blue", "yellow", "white", "black", "purple", "cyan")
PICTURED = {  # judges of pictures of one colour each that learn to tell them apart in two seconds
    **dict.fromkeys(("image.width", "text.width", "space.dim"), 32),
    **dict.fromkeys(("image.layers", "text.layers"), 1),
    "tokens.vocabulary": 600, "preprocess.size": 32, "training.batch_size": 40, "training.warmup_steps": 5,
    "training.learning_rate": 0.003, "training.evaluate_every": 50, "clean.steps": 100,
}  # fmt: skip
OF_PICTURES = " ".join(f"--set {key}={value}" for key, value in PICTURED.items())
ONLINE = "--set clean.online=true --set clean.rule=weights --set clean.every=5 "
TUNING = " ".join(f"--set training.{name}" for name in ("steps=6", "batch_size=8", "checkpoint_every=1", "device=cpu"))
COMMANDS = {
    "train": "train {here}/r.toml --resume --out {out}",
    "train --clean": "train features --clean --resume --out {out} " + SETTINGS,
    "train --clean, online": "train features --clean --resume --out {out} " + ONLINE + SETTINGS,
    "finetune": "finetune {here}/model {here}/r.toml --resume --out {out} " + TUNING,
    "embed": "embed {here}/model {here}/r.toml --per-shard 4 --batch-size 4 --out {out}",
    "audit": "audit features --out {out} " + SETTINGS,
    "clean": "clean features --out {out} " + SETTINGS,
    "clean, two rounds": "clean features --out {out} --set clean.rounds=2 " + SETTINGS,
    "clean --shards": "clean {here}/photos --out {out}/cleaned --shards {out}/shards " + OF_PICTURES,
    "regions": "regions {here}/shards/00000.tar --per-file 4 --out {out}",
    "data prepare": "data prepare {here}/shards/00000.tar {out} --size 16 --per-shard 4",
    "scenes write": "scenes write {out} --per-shard 4 --size 24 --set data.train_size=32",
    "index": "index {here}/model {here}/r.toml --out {out}",
    "claims run": "claims run structure --scale small --seeds 1 --out {out}",
    "eval": "eval {here}/model --out {out}",
}
# Drawn or written by the clock, or by which process wrote them; what they show is compared in the other files.
NOT_COMPARED = re.compile(r"(^|/)(report\.html|cost\.json|tensorboard/.*|\.lock|.*\.png)$")
MOST_IN_A_ROW = 5
# training.json holds seconds, and so its digest follows the clock too; figures.json tells them in a sentence
BY_THE_CLOCK = re.compile(r'"(seconds|pairs_per_second|training\.json)": [^,}\n]*| in \d+ s \([\d,]+ pairs/s\)')


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    names = options.only or list(COMMANDS)
    random, each = Random(options.seed), -(-options.kills // len(names))
    wrong = False
    with tempfile.TemporaryDirectory(prefix="equipoise-kills-") as scratch:
        here = Path(scratch)
        make_inputs(here)
        print(f"{'command':<22}{'seconds':>8}{'kills':>7}{'ends':>6}  files that differ")
        for name in names:
            seconds, kills, ends, different = tried(name, here, each, random)
            wrong |= bool(different)
            print(f"{name:<22}{seconds:>8.1f}{kills:>7}{ends:>6}  {', '.join(sorted(different)) or 'none'}", flush=True)
    return 1 if wrong else 0


def tried(name: str, here: Path, wanted: int, random: Random) -> tuple[float, int, int, set[str]]:
    """Seconds undisturbed, kills, ends that were compared, and the files in which any of them differed."""
    place = here / name.replace(" ", "_")
    begun = time.monotonic()
    process = start(name, here, place / "whole")
    status = os.waitpid(process, 0)[1]
    seconds = time.monotonic() - begun
    whole = contents(place / "whole")
    if not whole:
        sys.exit(f"{name} left nothing behind; see {place / 'whole.txt'}:\n{(place / 'whole.txt').read_text()[-2000:]}")
    kills = ends = 0
    different: set[str] = set()
    while kills < wanted:
        folder, killed_now = place / f"{ends}", 0
        for _ in range(random.randint(1, min(MOST_IN_A_ROW, wanted - kills))):
            if not killed(name, here, folder, random.uniform(0, seconds), status):
                break
            kills, killed_now = kills + 1, killed_now + 1
        else:
            killed(name, here, folder, float("inf"), status)
        if killed_now:
            ends += 1
            left = contents(folder)
            different |= {file for file in whole.keys() | left.keys() if whole.get(file) != left.get(file)}
        shutil.rmtree(folder, ignore_errors=True)
    return seconds, kills, ends, different


def start(name: str, here: Path, out: Path) -> int:
    out.parent.mkdir(parents=True, exist_ok=True)
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.setsid()
        printed = os.open(out.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(printed, number)
        os.chdir(here)
        words = COMMANDS[name].split()
        status = equipoise([word.replace("{here}", str(here)).replace("{out}", str(out)) for word in words])
    finally:
        sys.stdout.flush()
        os._exit(status)


def killed(name: str, here: Path, folder: Path, seconds: float, status: int) -> bool:
    """Start the command and kill it after so many seconds; False where it had come to its end, as it should."""
    process = start(name, here, folder)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, found = os.waitpid(process, os.WNOHANG)
        if done:
            if found != status:
                text = folder.with_suffix(".txt").read_text()[-3000:]
                sys.exit(f"{name}, started again, ended with {found} and not {status}:\n{text}")
            return False
        time.sleep(0.001)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that counts, by its name, without what the clock says; what was half-written counts too."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or NOT_COMPARED.search(name):
            continue
        data = path.read_bytes()
        if path.suffix in (".json", ".jsonl", ".md", ".toml", ".csv", ".html"):
            text = data.decode().replace(str(folder), "FOLDER")
            data = BY_THE_CLOCK.sub("", text).encode()
        found[f"{name} (half-written)" if LEFTOVER.fullmatch(path.name) else name] = data
    return found


def make_inputs(here: Path) -> None:
    """A recipe, a model, shards, features and pictures of colours; what trains in another process, for threads of a
    gradient do not survive a fork."""
    (here / "r.toml").write_text(TRAINED)
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(IMAGES, WIDTH))
    images, texts = (shared + rng.normal(size=shared.shape) / 4 for _ in range(2))
    np.savez(here / "f.npz", image=images.astype(np.float32), text=texts.astype(np.float32))
    (here / "photos").mkdir()
    write_shard(here / "photos" / "0.tar", [_coloured(number, rng) for number in range(4 * IMAGES)])
    for words in (
        ["train", str(here / "r.toml"), "--out", str(here / "model")],
        ["scenes", "write", str(here / "shards"), "--size", "24", "--set", "data.train_size=16"],
    ):
        made = subprocess.run([sys.executable, "-m", "equipoise", *words], capture_output=True, text=True, check=False)
        if made.returncode:
            sys.exit(f"{' '.join(words)}: {made.stderr[-2000:]}")


def _coloured(number: int, rng: np.random.Generator) -> dict[str, object]:
    """A picture of one colour with its name; every fifth has another's."""
    pixels = np.asarray(Image.new("RGB", (32, 32), COLOURS[number % len(COLOURS)])) + rng.integers(-20, 20, (32, 32, 3))
    buffer = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "PNG")
    said = COLOURS[(number + 3 * (number % 5 == 0)) % len(COLOURS)]
    return {"__key__": f"{number:04d}", "png": buffer.getvalue(), "txt": f"something {said}".encode()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--only", action="append", default=[], choices=[*COMMANDS])
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
