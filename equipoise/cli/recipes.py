"""The words of `equipoise recipes`; recipes are found in `settings/recipe.py`."""

from __future__ import annotations

import argparse

EXAMPLE = ""


def add(_: argparse.ArgumentParser) -> None:
    """Takes no arguments."""


def run(_: argparse.Namespace) -> None:
    from equipoise.settings.recipe import builtin_recipes

    for name, summary in builtin_recipes().items():
        print(f"{name:24} {summary}")
