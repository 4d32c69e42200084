"""The words of `equipoise lab temperature`; what it does is in `workflows/lab/temperature.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out
from equipoise.cli.paths import local_path

EXAMPLE = "runs/demo runs/other"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=local_path, nargs="+", metavar="RUN", help="the folder of a run")
    parser.add_argument("--epoch-steps", type=int, help="steps per epoch (default: from each run's data)")
    add_out(parser, "the folder for picture and numbers", "lab")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.lab.temperature import follow_logit_scale

    follow_logit_scale(options.runs, options.epoch_steps).write(options.out, options.command)
