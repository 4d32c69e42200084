"""The words of `equipoise train`; what it does is in `workflows/train.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

from equipoise.cli.arguments import OWN_FILES, add_data, add_epochs, add_recipe, add_run_folder, add_set
from equipoise.settings.recipe import find_recipe
from equipoise.types import UserError

EXAMPLE = "clip-scenes --set training.steps=2000 --out runs/mine"


def add(parser: argparse.ArgumentParser) -> None:
    add_data(parser, f"a built-in recipe's name or a TOML file; or {OWN_FILES}", "recipe", nargs="?")
    add_recipe(
        parser, "how to train on files (default: files, with sizes that follow the data)", "--recipe", dest="base"
    )
    add_epochs(parser)
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
    if options.base:
        find_recipe(options.base)  # raises UserError
    if not options.recipe and not (resume and folder):
        raise UserError("nothing to train: give a recipe or files, or --resume FOLDER")
    from equipoise.workflows import resume_folder, run_recipe

    overrides = [*options.set, *(["clean.enabled=true"] if options.clean else [])]
    if options.recipe:
        more = {"base": options.base, "epochs": options.epochs}
        return run_recipe(options.recipe, overrides, folder, command=options.command, resume=resume, **more)
    if options.base or options.epochs:
        raise UserError(
            "--recipe and --epochs begin a run; to train on, --set training.steps or training.epochs higher"
        )
    return resume_folder(folder, overrides, command=options.command)
