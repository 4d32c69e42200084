"""The words of `equipoise pull`; what it does is in `workflows/hub.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.paths import local_path

EXAMPLE = "my-name/demo models/demo"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "repo", metavar="REPO",
        help="ORG/NAME on the Hugging Face hub, or a folder that `push` wrote: a path that starts with ./, ../, ~ or /",
    )  # fmt: skip
    parser.add_argument("folder", type=local_path, metavar="FOLDER", help="the model folder to write, a new one")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows import pull_model

    pull_model(options.repo, options.folder)
