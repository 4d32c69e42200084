"""The words of `equipoise finetune`; what it does is in `workflows/finetune.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_model, add_recipe, add_run_folder, add_set
from equipoise.finetuning.methods import DEFAULT, METHODS

EXAMPLE = "runs/demo flickr8k --set data.root=FOLDER --method m3mix --out runs/mine"


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "a model folder or a run's, or what `import` reads", str)
    add_recipe(parser, "a recipe whose data to use: a built-in one's name or a TOML file", "data")
    parser.add_argument(
        "--method", default=DEFAULT, metavar="NAME",
        help="; ".join(f"{name}: {method.summary}" for name, method in METHODS.items()),
    )  # fmt: skip
    add_set(parser)
    add_run_folder(parser)
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out, where there is one")


def run(options: argparse.Namespace) -> int:
    from equipoise.workflows import finetune

    request = (options.model, options.data, options.method, options.set, options.out)
    return finetune(*request, command=options.command, resume=options.resume)
