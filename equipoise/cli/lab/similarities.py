"""The words of `equipoise lab similarities`; what it does is in `workflows/lab/similarities.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_data, add_out, add_seed, add_split, add_subject, subject_of
from equipoise.cli.numbers import up_to

EXAMPLE = "runs/demo --other fashion_products/train-000.tar"


def add(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    add_split(parser, "test")
    add_seed(parser)
    add_data(parser, "further data: a recipe or files", "--other", default="")
    parser.add_argument("--pairs", type=int, default=2000, help="drawn at most")
    parser.add_argument("--bins", type=up_to(10_000), default=80, help="of the histograms")
    add_out(parser, "the folder for picture and numbers", "lab")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.lab.similarities import compare_similarities

    report = compare_similarities(subject_of(options), options.other, options.pairs, options.bins)
    report.write(options.out, options.command)
