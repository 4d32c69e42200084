"""The words of `equipoise zeroshot`; what it does is in `workflows/zeroshot.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_model, add_results_folder, add_set

EXAMPLE = "runs/demo 'photos/*.jpg' --classes star,fish,house"


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "a model folder, such as runs/demo, or a model of another library", str)
    parser.add_argument(
        "pictures", nargs="+", metavar="PICTURES",
        help="files, a folder, a pattern, shards, or a folder of class folders, which gives accuracy too",
    )  # fmt: skip
    parser.add_argument(
        "--classes", default="", metavar="NAMES",
        help="names with commas between them, or a file with one a line (default: those of the data)",
    )  # fmt: skip
    parser.add_argument(
        "--template", action="append", default=[], metavar="TEXT",
        help='a sentence with {} for the class; several are averaged (default: the data\'s, or "a photo of a {}.")',
    )  # fmt: skip
    parser.add_argument("--top", type=int, default=3, metavar="K", help="classes shown for each picture")
    add_set(parser)
    add_results_folder(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.zeroshot import ZeroShotRequest, classify_pictures

    request = ZeroShotRequest(options.classes, tuple(options.template), options.top)
    classify_pictures(options.model, options.pictures, request, options.set, options.out)
