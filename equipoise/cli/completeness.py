"""The words of `equipoise completeness`; what it does is in `workflows/completeness.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_completeness_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `completeness` to the command line; `command` adds one command to a list of them."""
    about = "does a model notice that a sentence leaves an object out, or gets it wrong?"
    complete = command(commands, _completeness, "completeness", about, "runs/fdt-scenes")
    complete.add_argument("model", type=Path, help="a model folder, such as runs/fdt-scenes")
    complete.add_argument("data", nargs="?", default="", help="a recipe or files (default: the data it was trained on)")
    complete.add_argument("--split", default="test", choices=("train", "validation", "test"), help="of a recipe's data")
    complete.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the data"
    )
    complete.add_argument("--objects", type=Path, metavar="FILE", help="what is in the pictures, in MSCOCO's form")
    complete.add_argument("--template", default="", help='of the sentence (default: "An photo contains {}")')
    complete.add_argument("--seed", type=int, default=0, help="of what is swapped in, on scenes")
    complete.add_argument("--out", type=Path, help="write the results as JSON to this folder")


def _completeness(options: argparse.Namespace) -> None:
    from equipoise.workflows.completeness import probe_completeness
    from equipoise.workflows.subject import Subject

    subject = Subject(options.model, options.data, options.set, options.split, options.seed)
    probe_completeness(subject, options.objects, options.template, options.out)
