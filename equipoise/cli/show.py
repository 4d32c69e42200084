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
    from equipoise.io.numbers import hand_over

    table = load_run(options.recipe, options.set).table
    hand_over({"settings": table})
    if not options.json:
        print(dump(table), end="")
