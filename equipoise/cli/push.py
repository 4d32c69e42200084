"""The words of `equipoise push`; what it does is in `workflows/hub.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_model

EXAMPLE = "runs/demo my-name/demo --private"


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "repo", metavar="REPO",
        help="ORG/NAME on the Hugging Face hub, or a new folder: a path that starts with ./, ../, ~ or /",
    )  # fmt: skip
    parser.add_argument("--private", action="store_true", help="a new repository is private")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows import push_model

    push_model(options.model, options.repo, private=options.private)
