"""The words of `equipoise claims report`; what it does is in `workflows/claims/report.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out

EXAMPLE = "--out claims"


def add(parser: argparse.ArgumentParser) -> None:
    add_out(parser, "results of `claims run`, where the page goes too", "claims")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.claims.report import report_claims

    report_claims(options.out)
