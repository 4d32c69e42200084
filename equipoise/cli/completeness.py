"""The words of `equipoise completeness`; what it does is in `workflows/completeness.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_results_folder, add_seed, add_split, add_subject, subject_of
from equipoise.cli.paths import local_path

EXAMPLE = "runs/fdt-scenes"


def add(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    add_split(parser, "test")
    parser.add_argument("--objects", type=local_path, metavar="FILE", help="what is in the pictures, in MSCOCO's form")
    parser.add_argument("--template", default="", help='of the sentence (default: "An photo contains {}")')
    add_seed(parser, "of what is swapped in, on scenes")
    add_results_folder(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.completeness import probe_completeness

    probe_completeness(subject_of(options), options.objects, options.template, options.out)
