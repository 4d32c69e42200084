"""The words of `equipoise lab cost`; what it does is in `workflows/lab/cost.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out, add_recipe, add_set
from equipoise.cli.numbers import up_to

EXAMPLE = "clip-vit-b16 --class-tokens 4 16 --batch-size 1"


def add(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_set(parser)
    parser.add_argument(
        "--class-tokens", type=up_to(4096), nargs="+", default=[1, 2, 4, 8, 16], metavar="M", help="to try"
    )
    parser.add_argument("--batch-size", type=up_to(2**16), default=32, help="samples whose time is measured at once")
    add_out(parser, "the folder for picture and numbers", "lab")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.lab.cost import measure_cost

    report = measure_cost(options.recipe, options.set, options.class_tokens, options.batch_size)
    report.write(options.out, options.command)
