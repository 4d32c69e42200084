"""The words of `equipoise cite`; the papers are collected in `citations.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_recipe, add_set

EXAMPLE = "demo"


def add(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_set(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.citations import bibliography
    from equipoise.config import load_run

    print(bibliography(load_run(options.recipe, options.set).run))
