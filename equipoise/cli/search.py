"""The words of `equipoise search`; what it does is in `workflows/index/search.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_model, add_set, add_split
from equipoise.cli.paths import local_path

EXAMPLE = 'indexes/demo runs/demo "a red circle" --top 5'


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", metavar="INDEX", help="the folder of an index, or a postgresql:// address")
    add_model(parser, "the model folder that the index was made with")
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help="what to look for, in words")
    parser.add_argument("--image", type=local_path, metavar="FILE", help="a picture to look for, instead of words")
    parser.add_argument("--like", default="", metavar="KEY", help="a record to look for, by its key in the index")
    parser.add_argument("--by", default="", metavar="NAMES", help="which modalities of that record, such as audio")
    parser.add_argument("--data", default="", metavar="DATA", help="a recipe or files that KEY is a sample of")
    add_split(parser, None, "of that data", shown="train; all of a table")
    add_set(parser)
    parser.add_argument("--top", type=int, default=10, metavar="K", help="so many results (default: 10)")
    parser.add_argument("--where", default="", metavar="FILTER", help="only records that a filter lets through")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.index.search import Query, search

    asked = (options.text, options.image, options.like, options.by, options.data, tuple(options.set), options.split)
    search(options.index, options.model, Query(*asked), options.top, options.where)
