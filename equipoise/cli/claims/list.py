"""The words of `equipoise claims list`; what it does is in `workflows/claims/listing.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.paths import local_path

EXAMPLE = ""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=local_path, metavar="FOLDER", help="results of `claims run` (default: those of the repository)"
    )


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.claims.listing import list_claims

    list_claims(getattr(options, "out", None))
