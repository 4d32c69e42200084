"""The words of `equipoise train`; what it does is in `workflows/train.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

from equipoise.cli.arguments import add_recipe, add_run_folder, add_set
from equipoise.types import UserError

EXAMPLE = "clip-scenes --set training.steps=2000 --out runs/mine"


def add(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser, nargs="?")
    parser.add_argument(
        "--resume", nargs="?", const="", metavar="FOLDER",
        help="go on with the run in FOLDER, or in --out; with a recipe, start it where there is none",
    )  # fmt: skip
    parser.add_argument(
        "--clean", action="store_true", help="judge the pairs first and train on those that look right ([clean])"
    )
    add_set(parser)
    add_run_folder(parser)


def run(options: argparse.Namespace) -> int:
    resume, named = options.resume is not None, Path(options.resume) if options.resume else None
    if named and options.out:
        raise UserError("give the run's folder once: --resume FOLDER, or --out FOLDER --resume")
    folder = named or options.out
    if not options.recipe and not (resume and folder):
        raise UserError("nothing to train: give a recipe, or --resume FOLDER")
    from equipoise.workflows import resume_folder, run_recipe

    overrides = [*options.set, *(["clean.enabled=true"] if options.clean else [])]
    if options.recipe:
        return run_recipe(options.recipe, overrides, folder, command=options.command, resume=resume)
    return resume_folder(folder, overrides, command=options.command)
