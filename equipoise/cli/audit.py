"""The words of `equipoise audit`; what it does is in `workflows/audit/`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import (
    JUDGES,
    add_data,
    add_engine,
    add_out,
    add_pictures,
    add_recipe,
    add_seed,
    add_set,
    engine_of,
)
from equipoise.cli.paths import local_path

EXAMPLE = "'photos/{00000..00099}.tar' --out audits/photos"


def add(parser: argparse.ArgumentParser) -> None:
    add_data(parser, "shards, a table, a folder, or a recipe whose training data to judge")
    add_recipe(parser, JUDGES, "--recipe", default="")
    add_set(parser)
    parser.add_argument(
        "--model", type=local_path, metavar="MODEL", help="a model to judge with, that was NOT trained on these pairs"
    )
    parser.add_argument("--folds", type=int, default=2, help="judges to train, each on the pairs it does not judge")
    parser.add_argument("--neighbours", type=int, default=200, help="closest strangers to list, of each kind")
    parser.add_argument(
        "--reading",
        choices=["likelihood", "decoys"],
        default="likelihood",
        help="of the share of wrong pairs: off the likelihood, or by captions of other records (docs/audit.md), which "
        "comes closer where much is wrong, and leaves out captions wrong in a detail",
    )
    add_seed(parser, "of the folds")
    add_pictures(parser)
    add_out(parser, "the folder; the same again goes on with it", required=True)
    add_engine(parser)


def run(options: argparse.Namespace) -> int:
    from equipoise.workflows.audit import Audit, run_audit

    neighbours = options.neighbours
    of_judges = {"folds": options.folds, "seed": options.seed, "reading": options.reading}
    settings = Audit(**of_judges, neighbours=neighbours, copies=neighbours > 0)
    chosen = (options.model, settings, options.out, engine_of(options), options.pictures)
    return run_audit(options.data, options.recipe, options.set, *chosen)
