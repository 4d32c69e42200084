"""The words of `equipoise clean`; what it does is in `workflows/clean/`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import JUDGES, add_data, add_engine, add_out, add_pictures, add_recipe, add_set, engine_of
from equipoise.cli.paths import local_path

EXAMPLE = "'photos/{00000..00099}.tar' --out cleaned/photos"


def add(parser: argparse.ArgumentParser) -> None:
    add_data(parser, "shards, a table, a folder, or a recipe whose training data to judge")
    add_recipe(parser, JUDGES, "--recipe", default="")
    add_set(parser)
    parser.add_argument(
        "--model", type=local_path, metavar="MODEL", help="a model to judge with, that was NOT trained on these pairs"
    )
    parser.add_argument(
        "--show",
        type=int,
        default=200,
        metavar="N",
        help="suspicious captions on the page for curators (default: 200; 0: no page)",
    )
    parser.add_argument(
        "--shards",
        type=local_path,
        metavar="FOLDER",
        help="write what is kept as shards too, images as they are; by decisions.json in --out where it is there",
    )
    add_pictures(parser)
    add_out(parser, "the folder; the same again goes on with it", required=True)
    add_engine(parser)


def run(options: argparse.Namespace) -> int:
    from equipoise.workflows.clean import run_clean

    chosen = (options.model, options.out, options.show, options.shards, engine_of(options), options.pictures)
    return run_clean(options.data, options.recipe, options.set, *chosen)
