"""The words of `equipoise lab landscape`; what it does is in `workflows/lab/landscape.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out, add_seed, add_split, add_subject, subject_of

EXAMPLE = "runs/demo --scales 1 100"


def add(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    add_split(parser, "train")
    add_seed(parser)
    parser.add_argument("--scales", type=float, nargs=2, default=[1.0, 100.0], metavar="S", help="logit scales exp(t)")
    parser.add_argument("--batch-size", type=int, default=256, help="pairs whose loss is drawn")
    parser.add_argument("--grid", type=int, default=21, help="places on a side, an odd number")
    parser.add_argument("--reach", type=float, default=1.0, help="half a side, in lengths of the weights")
    add_out(parser, "the folder for picture and numbers", "lab")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.lab.landscape import draw_around

    low, high = options.scales
    report = draw_around(subject_of(options), (low, high), options.batch_size, options.grid, options.reach)
    report.write(options.out, options.command)
