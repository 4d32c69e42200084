"""What the package says and computes, written down: `python tests/golden/record.py` after a change that is meant.

Everything goes through the command line, so that the record outlives any change to the code behind it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from equipoise.cli import main

HERE = Path(__file__).parent
SIZES = ("data.train_size=16", "data.validation_size=4", "data.test_size=4", "training.steps=2")
SMALL = (*SIZES, "training.batch_size=8", "training.log_every=1")
DEMO = ("data.train_size=640", "data.validation_size=32", "data.test_size=32", "training.steps=20")
# One of each code path of the objectives, spaces and readouts.
RECIPES = (
    "clip-scenes-noisy",
    "label-smoothing-scenes",
    "softclip-scenes",
    "fdt-scenes",
    "declip-fdt-scenes",
    "filip-scenes",
    "slip-scenes",
    "cyclip-scenes",
    "coca-m2-scenes",
    "tcl-scenes",
    "scenes-euclidean",
    "scenes-multi-64x8",
    "scenes-ps-64x8-geodesic",
    "m3mix-noisy-scenes",
    "unmix-scenes",
)


def said(*words: str) -> str:
    """What a call of the command line prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        main(words)
    return out.getvalue()


def recipe_names() -> list[str]:
    return sorted(one["name"] for one in json.loads(said("recipes", "--json"))["recipes"])


def shown() -> dict[str, str]:
    """A digest of every recipe, resolved."""
    return {name: _digest(said("show", name).encode()) for name in recipe_names()}


def command_names(*before: str) -> Iterator[tuple[str, ...]]:
    """Every command, and those within it."""
    lines = re.split("commands:|experiments:", said(*before, "--help"))[-1].splitlines()
    names = [line.split()[0] for line in lines if line.startswith("    ") and not line.startswith("      ")]
    for name in names:
        yield (*before, name)
        yield from command_names(*before, name)


def helped() -> dict[str, str]:
    os.environ["COLUMNS"] = "80"
    return {" ".join(words): said(*words, "--help") for words in [(), *command_names()]}


def losses(recipe: str) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        _train(recipe, SMALL, folder)
        records = map(json.loads, Path(folder, "run", "metrics.jsonl").read_text().splitlines())
        return [record["loss"] for record in records if "loss" in record]


def demo_digest() -> str:
    """Of the weights after 20 steps of the demo."""
    with tempfile.TemporaryDirectory() as folder:
        _train("demo", DEMO, folder)
        return _digest(Path(folder, "run", "model.safetensors").read_bytes())


def machine() -> str:
    """What the bits of a run depend on beside the code."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    kind = torch.backends.cpu.get_cpu_capability()
    return ", ".join((platform.machine(), kind, *sorted(names), f"torch {torch.__version__}"))


def _train(recipe: str, settings: tuple[str, ...], folder: str) -> None:
    torch.set_num_threads(1)
    said("train", recipe, "--out", f"{folder}/run", *(word for text in settings for word in ("--set", text)))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def record() -> None:
    demo = HERE / "demo.json"
    known = json.loads(demo.read_text()) if demo.exists() else {}
    _write(demo, known | {machine(): demo_digest()})
    _write(HERE / "show.json", shown())
    _write(HERE / "help.json", {"python": sys.version_info[:2], "help": helped()})
    _write(HERE / "losses.json", {name: losses(name) for name in RECIPES})


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
