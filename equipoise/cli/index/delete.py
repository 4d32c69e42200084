"""The words of `equipoise index delete`; what it does is in `workflows/index/build.py`."""

from __future__ import annotations

import argparse

EXAMPLE = "indexes/demo --where 'label = \"logo\"'"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", metavar="INDEX", help="the folder of an index, or a postgresql:// address")
    parser.add_argument("keys", metavar="KEY", nargs="*", help="keys of records")
    parser.add_argument("--where", default="", metavar="FILTER", help="those that a filter lets through; see docs")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.index.build import delete_from_index

    delete_from_index(options.index, options.keys, options.where)
