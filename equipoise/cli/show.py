"""The words of `equipoise show`; recipes are read in `config.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_recipe, add_set

EXAMPLE = "demo --set seed=3"


def add(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_set(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.config import dump, load_run

    print(dump(load_run(options.recipe, options.set).table), end="")
