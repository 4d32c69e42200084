"""The words of `equipoise compare`; what it does is in `workflows/compare.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLE = "runs/demo runs/other"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="the folders of two runs or more")
    parser.add_argument(
        "--out", type=Path, default=Path("compare.html"), metavar="FILE", help="the page (default: compare.html)"
    )


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.compare import compare_runs

    compare_runs(options.runs, options.out)
