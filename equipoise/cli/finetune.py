"""The words of `equipoise finetune`; what it does is in `workflows/finetune.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from equipoise.finetuning.methods import DEFAULT, METHODS


def add_finetune_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `finetune` to the command line; `command` adds one command to a list of them."""
    about = "train a model that is there already on other data, and keep it only where it became better"
    tune = command(commands, _finetune, "finetune", about, "runs/demo flickr8k --method m3mix --out runs/mine")
    tune.add_argument("model", help="a model folder or a run's, or what `import` reads")
    tune.add_argument("data", help="a recipe whose data to use: a built-in one's name or a TOML file")
    tune.add_argument(
        "--method", default=DEFAULT, metavar="NAME",
        help="; ".join(f"{name}: {method.summary}" for name, method in METHODS.items()),
    )  # fmt: skip
    tune.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting, e.g. seed=3")
    tune.add_argument("--out", type=Path, help="the run's folder (default: a new one under runs/)")
    tune.add_argument("--resume", action="store_true", help="go on with the run in --out, where there is one")


def _finetune(options: argparse.Namespace) -> int:
    from equipoise.workflows import finetune

    words = (options.model, options.data, options.method, options.set, options.out)
    return finetune(*words, command=options.typed, resume=options.resume)
