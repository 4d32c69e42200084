"""The words of `equipoise autotune`; what it does is in `workflows/autotune/`."""

from __future__ import annotations

import argparse
from pathlib import Path

from equipoise.cli.arguments import add_recipe, add_set, passed_on
from equipoise.cli.paths import local_path

EXAMPLE = "clip-scenes --seconds 20 --out tuned.toml"


def add(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_set(parser)
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="of training, a try (default: 60)")
    parser.add_argument(
        "--precision", nargs="+", default=[], metavar="P", help="to try besides the recipe's: float32, bf16"
    )
    parser.add_argument(
        "--out", type=local_path, default=Path("tuned.toml"), metavar="FILE",
        help="the recipe to write (default: tuned.toml); the same again goes on with it",
    )  # fmt: skip


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.autotune import AutotuneRequest, autotune

    wanted = (options.recipe, options.out, options.set, options.seconds, options.precision, passed_on(options))
    autotune(AutotuneRequest(*wanted), options.command)
