"""The words of `equipoise index MODEL DATA`; what it does is in `workflows/index/build.py`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from equipoise.cli.arguments import add_data, add_model, add_out, add_set, add_split

if TYPE_CHECKING:
    from equipoise.workflows.index.embedding import Wanted

EXAMPLE = "runs/demo demo --split test --out indexes/demo"
KINDS = ("exact", "ivf", "hnsw")
DTYPES = ("float32", "float16", "int8")


def add(parser: argparse.ArgumentParser) -> None:
    add_what(parser)
    add_out(parser, "the folder for the index; with --to, where unfinished work is kept")
    parser.add_argument("--to", default="", metavar="ADDRESS", help="a PostgreSQL with pgvector: postgresql://...")
    parser.add_argument(
        "--kind", choices=KINDS, default="exact", help="how it is searched: all of it, or by faiss (default: exact)"
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="how points are stored; fewer bits find a little less"
    )
    parser.add_argument(
        "--recall", type=float, default=0.95, metavar="R", help="share of the ten closest that ivf and hnsw are to find"
    )


def run(options: argparse.Namespace) -> None:
    from equipoise.index.making import Making
    from equipoise.workflows.index.build import build_index

    build_index(wanted(options), options.out, options.to, Making(options.kind, options.dtype, options.recall))


def add_what(parser: argparse.ArgumentParser) -> None:
    """MODEL, DATA and how points are computed."""
    add_model(parser)
    add_data(parser, "a recipe whose data to read, or shards, a table or a folder")
    add_split(parser, None, "of a recipe's data, or of a table with splits", shown="train; all of a table")
    add_set(parser)
    parser.add_argument(
        "--of",
        default="",
        metavar="WHAT",
        help="what can be found: images, texts or both; of modalities joint, some of their names, or all of these "
        "(default: images, or joint)",
    )
    parser.add_argument("--batch-size", type=int, default=256, help="images encoded at once")
    parser.add_argument("--per-shard", type=int, default=10_000, help="images after which work is saved")
    parser.add_argument("--processes", type=int, default=1, help="processes that compute points (default: 1)")


def wanted(options: argparse.Namespace) -> Wanted:
    from equipoise.workflows.index.embedding import Wanted

    chosen = (options.of, options.batch_size, options.per_shard, options.processes)
    return Wanted(options.model, options.data, tuple(options.set), options.split, *chosen)
