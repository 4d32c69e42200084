"""The words of `equipoise index add`; what it does is in `workflows/index/build.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.index.build import add_what, wanted

EXAMPLE = "indexes/demo runs/demo demo --split validation"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", metavar="INDEX", help="the folder of an index, or a postgresql:// address")
    add_what(parser)
    parser.add_argument("--replace", action="store_true", help="replace records whose keys are in the index already")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.index.build import add_to_index

    add_to_index(wanted(options), options.index, options.replace)
