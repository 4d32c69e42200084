"""The words of `equipoise shift`; what it does is in `workflows/shift.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

GRIDS = ("paper", "official")


def add_shift_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `shift` to the command line; `command` adds one command to a list of them."""
    about = "shift a model's images and texts towards each other, as far as validation data likes it"
    shift = command(commands, _shift, "shift", about, "runs/demo clip-scenes --out runs/demo-shifted")
    shift.add_argument("model", help="a model folder, such as runs/demo, or a model of another library")
    shift.add_argument("data", help="a recipe: its training data gives the direction, its validation data the amount")
    shift.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a recipe's setting")
    shift.add_argument("--grid", default="paper", choices=GRIDS, help="amounts: ±0.1 by 0.01, or ±2.5 by 0.125")
    shift.add_argument("--amounts", type=float, nargs="+", metavar="X", help="amounts of your own, instead of a grid")
    shift.add_argument("--metric", default="mean_recall", help="that chooses, such as rsum or acc1")
    shift.add_argument("--pairs", type=int, default=0, help="to measure the direction on (default: all)")
    shift.add_argument("--seed", type=int, default=0, help="of which pairs these are")
    shift.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 (default: a GPU where there is one)")
    shift.add_argument("--out", type=Path, required=True, help="the folder of the shifted model")


def _shift(options: argparse.Namespace) -> None:
    from equipoise.evaluation.shift_sweep import GRIDS as AMOUNTS
    from equipoise.workflows.shift import ShiftRequest, shift_model

    amounts = tuple(options.amounts or AMOUNTS[options.grid])
    chosen = ShiftRequest(amounts, options.metric, options.pairs, options.seed)
    shift_model(options.model, options.data, options.set, options.out, chosen, options.device, options.typed)
