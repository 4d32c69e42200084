"""The words of `equipoise finetune`; what it does is in `workflows/finetune.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import OWN_FILES, add_data, add_epochs, add_model, add_run_folder, add_set
from equipoise.finetuning.methods import DEFAULT, METHODS

EXAMPLE = "runs/demo flickr8k --set data.root=FOLDER --method m3mix --out runs/mine"


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "a model folder or a run's, or what `import` reads", str)
    add_data(parser, f"a recipe whose data to use, or {OWN_FILES}")
    parser.add_argument(
        "--method", default=DEFAULT, metavar="NAME",
        help="; ".join(f"{name}: {method.summary}" for name, method in METHODS.items()),
    )  # fmt: skip
    add_epochs(parser)
    add_set(parser)
    add_run_folder(parser)
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out, where there is one")


def run(options: argparse.Namespace) -> int:
    from equipoise.workflows import finetune

    request = (options.model, options.data, options.method, options.set, options.out)
    return finetune(*request, command=options.command, resume=options.resume, epochs=options.epochs)
