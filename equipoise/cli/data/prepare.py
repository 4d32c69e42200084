"""The words of `equipoise data prepare`; what it does is in `workflows/check_data.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_engine, add_files, engine_of
from equipoise.cli.paths import folder_or_store

EXAMPLE = "photos/pairs.csv shards --size 256"


def add(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument(
        "folder", type=folder_or_store, metavar="FOLDER", help="where the shards go, in a store too (s3://...)"
    )
    parser.add_argument("--size", type=int, default=256, help="pixels of the shorter side")
    parser.add_argument("--quality", type=int, default=90, help="of the JPEGs, up to 100")
    parser.add_argument("--per-shard", type=int, default=1000, help="records per shard")
    add_engine(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.data.files.prepare import Prepare
    from equipoise.workflows.check_data import prepare_data
    from equipoise.workflows.subject import find_parts

    settings = Prepare(options.size, options.quality, options.per_shard)
    parts = find_parts(options.data, options.set, options.split)
    prepare_data(parts, options.folder, settings, engine_of(options))
