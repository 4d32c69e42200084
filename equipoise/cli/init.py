"""The words of `equipoise init`; what it does is in `workflows/init_recipe.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import OWN_FILES, add_data, add_set
from equipoise.cli.paths import local_path

EXAMPLE = "photos/pairs.csv --out mine.toml"


def add(parser: argparse.ArgumentParser) -> None:
    add_data(parser, OWN_FILES)
    parser.add_argument("--out", type=local_path, metavar="FILE", help="the recipe (default: the data's name, .toml)")
    add_set(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.io.numbers import hand_over
    from equipoise.workflows.init_recipe import init_recipe

    path = init_recipe(options.data, options.set, options.out)
    hand_over({"recipe": str(path), "next": f"equipoise train {path}"})
    print(f"The recipe is {path}; train with: equipoise train {path}")
