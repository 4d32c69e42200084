"""The words of `equipoise compare`; what it does is in `workflows/compare.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

from equipoise.cli.paths import local_path

EXAMPLE = "runs/demo runs/other"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=local_path, nargs="+", metavar="RUN", help="the folders of two runs or more")
    parser.add_argument(
        "--out", type=local_path, default=Path("compare.html"), metavar="FILE", help="the page (default: compare.html)"
    )


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.compare import compare_runs

    compare_runs(options.runs, options.out)
