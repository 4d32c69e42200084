"""The words of `equipoise clean`; what it does is in `workflows/clean/`."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "decide which captions of a data set to train on, by models that never saw them"
EXAMPLE = "'photos/{00000..00099}.tar' --out cleaned/photos"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", metavar="DATA", help="shards, a table, a folder, or a recipe whose training data to judge"
    )
    parser.add_argument(
        "--recipe", metavar="RECIPE", default="flickr8k",
        help="how to train the judges, where DATA is no recipe (default: flickr8k)",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="change a setting of the recipe, e.g. clean.folds=4, clean.rule=share",
    )  # fmt: skip
    parser.add_argument(
        "--model", type=Path, metavar="MODEL", help="a model to judge with, that was NOT trained on these pairs"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", required=True, help="the folder; the same again goes on with it"
    )


def run(options: argparse.Namespace) -> int:
    from equipoise.workflows.clean import run_clean

    return run_clean(options.data, options.recipe, options.set, options.model, options.out)
