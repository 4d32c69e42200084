"""The words of `equipoise index merge`; what it does is in `workflows/index/build.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLE = "indexes/demo"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", metavar="INDEX", help="the folder of an index")
    parser.add_argument(
        "--recall", type=float, default=0.95, metavar="R", help="share of the ten closest that ivf and hnsw are to find"
    )


def run(options: argparse.Namespace) -> None:
    from equipoise.index.open import is_address
    from equipoise.types import UserError
    from equipoise.workflows.index.build import merge_index

    if is_address(options.index):
        raise UserError("a database has no segments to merge: PostgreSQL's own VACUUM gives back what was deleted")
    merge_index(Path(options.index), options.recall)
