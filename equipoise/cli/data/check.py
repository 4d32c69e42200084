"""The words of `equipoise data check`; what it does is in `workflows/check_data.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_engine, add_files, add_out, engine_of
from equipoise.cli.paths import local_path

EXAMPLE = "'photos/{00000..00099}.tar'"


def add(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument(
        "--tokens", type=local_path, metavar="PATH", help="a tokenizer's file or folder, to count tokens"
    )
    add_out(parser, "the folder for the report", "data-check")
    add_engine(parser)


def run(options: argparse.Namespace) -> int:
    from equipoise.workflows.check_data import check_data
    from equipoise.workflows.subject import find_parts, find_tokens

    parts = find_parts(options.data, options.set, options.split)
    kind = find_tokens(options.data, options.set)
    return 0 if check_data(parts, options.out, options.tokens, kind, engine_of(options)) else 1
