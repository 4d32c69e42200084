"""The words of `equipoise lab equilibrium`; what it does is in `workflows/lab/equilibrium.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out, add_seed, add_split, add_subject, subject_of

EXAMPLE = "runs/demo --batch-sizes 64 1024"


def add(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    add_split(parser, "train")
    add_seed(parser)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 64, 256, 1024], metavar="N", help="pairs")
    parser.add_argument("--shuffle", type=float, nargs="+", default=[0, 10, 30, 50], metavar="PERCENT", help="of texts")
    parser.add_argument("--average", default="ratio", choices=("ratio", "parts", "log"), help="see docs/lab.md")
    parser.add_argument("--highest", type=float, default=300.0, help="end of the sweep, as the std of random logits")
    add_out(parser, "the folder for picture and numbers", "lab")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.lab.equilibrium import find_equilibrium

    request = (options.batch_sizes, options.shuffle, options.average, options.highest)
    find_equilibrium(subject_of(options), *request).write(options.out, options.command)
