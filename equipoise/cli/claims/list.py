"""The words of `equipoise claims list`; what it does is in `workflows/claims/listing.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLE = ""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="results of `claims run` (default: those of the repository)"
    )


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.claims.listing import list_claims

    list_claims(getattr(options, "out", None))
