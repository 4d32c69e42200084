"""The words of `equipoise demo`; what it does is in `workflows/train.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_run_folder, add_set

EXAMPLE = "--set seed=1"


def add(parser: argparse.ArgumentParser) -> None:
    add_set(parser)
    add_run_folder(parser)


def run(options: argparse.Namespace) -> int:
    from equipoise.workflows import run_recipe
    from equipoise.workflows.train import folder_for

    out = options.out or folder_for("demo", None)
    return run_recipe("recipe:demo-noisy", options.set, out, command=options.command)
