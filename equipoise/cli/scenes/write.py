"""The words of `equipoise scenes write`; what it does is in `workflows/preview.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_recipe, add_set, add_split
from equipoise.cli.paths import local_path

EXAMPLE = "shards --size 64"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=local_path, metavar="FOLDER", help="where the shards go")
    parser.add_argument("--per-shard", type=int, default=1000, help="records per shard")
    add_recipe(parser, "the recipe whose scenes to draw (default: demo)", "--recipe", default="demo")
    add_split(parser, "train")
    parser.add_argument("--size", type=int, default=64, help="pixels on a side")
    add_set(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows import write_data

    write_data(options.recipe, options.set, options.split, options.size, options.per_shard, options.folder)
