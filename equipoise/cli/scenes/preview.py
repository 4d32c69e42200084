"""The words of `equipoise scenes preview`; what it does is in `workflows/preview.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

from equipoise.cli.arguments import add_recipe, add_set, add_split
from equipoise.cli.paths import local_path

EXAMPLE = "--count 12"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=local_path, default=Path("scenes.png"), metavar="FILE", help="the picture (default: scenes.png)"
    )
    parser.add_argument("--count", type=int, default=16, help="how many scenes")
    add_recipe(parser, "the recipe whose scenes to draw (default: demo)", "--recipe", default="demo")
    add_split(parser, "train")
    parser.add_argument("--size", type=int, default=192, help="pixels on a side")
    add_set(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows import preview

    preview(options.recipe, options.set, options.split, options.count, options.size, options.out)
