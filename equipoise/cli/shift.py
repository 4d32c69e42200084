"""The words of `equipoise shift`; what it does is in `workflows/shift.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_data, add_model, add_out, add_seed, add_set

EXAMPLE = "runs/demo clip-scenes --out runs/demo-shifted"
GRIDS = ("paper", "official")


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "a model folder, such as runs/demo, or a model of another library", str)
    add_data(parser, "a recipe or files: training data gives the direction, validation data the amount")
    add_set(parser)
    parser.add_argument("--grid", default="paper", choices=GRIDS, help="amounts: ±0.1 by 0.01, or ±2.5 by 0.125")
    parser.add_argument("--amounts", type=float, nargs="+", metavar="X", help="amounts of your own, instead of a grid")
    parser.add_argument("--metric", default="", help="that chooses (default: mean_recall; acc1 of class data)")
    parser.add_argument("--pairs", type=int, default=0, help="to measure the direction on (default: all)")
    add_seed(parser, "of which pairs these are")
    add_out(parser, "the folder of the shifted model", required=True)


def run(options: argparse.Namespace) -> None:
    from equipoise.evaluation.shift_sweep import GRIDS as AMOUNTS
    from equipoise.workflows.shift import ShiftRequest, shift_model

    amounts = tuple(options.amounts or AMOUNTS[options.grid])
    request = ShiftRequest(amounts, options.metric, options.pairs, options.seed)
    shift_model(options.model, options.data, options.set, options.out, request, options.device, options.command)
