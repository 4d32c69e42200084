"""The words of `equipoise lab tokens`; what it does is in `workflows/lab/tokens.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out, add_seed, add_split, add_subject, subject_of

EXAMPLE = "runs/multi --draws 20"


def add(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    add_split(parser, "test")
    add_seed(parser)
    parser.add_argument("--task", default="zero_shot", choices=("zero_shot", "retrieval"), help="what is measured")
    parser.add_argument("--draws", type=int, default=20, help="subsets of each size")
    add_out(parser, "the folder for picture and numbers", "lab")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.lab.tokens import leave_tokens_out

    leave_tokens_out(subject_of(options), options.task, options.draws).write(options.out, options.command)
