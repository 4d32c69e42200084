"""The words of `equipoise eval`; what it does is in `workflows/evaluate.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import OWN_FILES, add_data, add_model, add_results_folder, add_set, add_split
from equipoise.cli.paths import local_path

EXAMPLE = "runs/demo clip-scenes --set data.shift=rotation"


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_data(parser, f"a recipe whose data to use, or {OWN_FILES} (default: the data it was trained on)", nargs="?")
    add_split(parser, "test")
    add_set(parser)
    parser.add_argument(
        "--before",
        type=local_path,
        metavar="MODEL",
        help="a model folder too: what became of its accuracies, shifts and all",
    )
    add_results_folder(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows import evaluate_folder

    request = (options.model, options.data, options.set, options.split, options.out, options.device)
    evaluate_folder(*request, before=options.before)
