"""The words of `equipoise data check` and `equipoise data prepare`; what they do is in `workflows/check_data.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

SPLITS = ("train", "validation", "test")


def add_data_commands(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `data` to the command line; `command` adds one command to a list of them."""
    data = commands.add_parser("data", help="look at data, or prepare it for training")
    inner = data.add_subparsers(title="commands", required=True, metavar="COMMAND")
    about = "read all of a data set once: counts, sizes, captions, copies, faults, a picture sheet"
    check = command(inner, _check, "check", about, "'photos/{00000..00099}.tar'", "data ")
    _data_options(check)
    check.add_argument("--tokens", type=Path, help="a tokenizer's file or folder, to count tokens with")
    check.add_argument("--out", type=Path, default=Path("data-check"), help="the folder for the report")
    about = "re-encode a data set as shards at a training resolution"
    prepare = command(inner, _prepare, "prepare", about, "photos/pairs.csv shards --size 256", "data ")
    _data_options(prepare)
    prepare.add_argument("folder", type=Path, help="where the shards go")
    prepare.add_argument("--size", type=int, default=256, help="pixels of the shorter side")
    prepare.add_argument("--quality", type=int, default=90, help="of the JPEGs, up to 100")
    prepare.add_argument("--per-shard", type=int, default=1000, help="records in a shard")


def _data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="shards, a table, a folder of class folders, or a recipe that reads such")
    parser.add_argument("--split", choices=SPLITS, help="of a recipe (default: all of them)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a recipe's setting")


def _check(options: argparse.Namespace) -> int:
    from equipoise.workflows.check_data import check_data, find_parts

    parts = find_parts(options.data, options.set, options.split)
    return 0 if check_data(parts, options.out, options.tokens) else 1


def _prepare(options: argparse.Namespace) -> None:
    from equipoise.data.files.prepare import Prepare
    from equipoise.workflows.check_data import find_parts, prepare_data

    settings = Prepare(options.size, options.quality, options.per_shard)
    prepare_data(find_parts(options.data, options.set, options.split), options.folder, settings)
