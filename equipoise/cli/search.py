"""The words of `equipoise search`; what it does is in `workflows/index/search.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

from equipoise.cli.arguments import add_model

EXAMPLE = 'indexes/demo runs/demo "a red circle" --top 5'


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", metavar="INDEX", help="the folder of an index, or a postgresql:// address")
    add_model(parser, "the model folder that the index was made with")
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help="what to look for, in words")
    parser.add_argument("--image", type=Path, metavar="FILE", help="a picture to look for, instead of words")
    parser.add_argument("--top", type=int, default=10, metavar="K", help="so many results (default: 10)")
    parser.add_argument("--where", default="", metavar="FILTER", help="only records that a filter lets through")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.index.search import search

    search(options.index, options.model, options.text, options.image, options.top, options.where)
