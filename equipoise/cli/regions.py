"""The words of `equipoise regions`; what they do is in `detection/`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_regions_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `regions` to the command line; `command` adds one command to a list of them."""
    about = "find regions and tags of pictures with a detector, to guide training by"
    regions = command(commands, _regions, "regions", about, "'photos/{00000..00099}.tar' --out photos/regions")
    regions.add_argument("data", help="shards, a table, a folder of class folders, or a recipe that reads such")
    regions.add_argument("--out", type=Path, required=True, help="the folder for the regions; go on with it if stopped")
    regions.add_argument(
        "--detector", default="salient", metavar="FILE",
        help="salient (the default, needs no file), given (boxes and tags of the .json), or a .pt, .pt2 or .onnx file",
    )  # fmt: skip
    regions.add_argument("--labels", default="", metavar="FILE", help="names of the detector's classes, one a line")
    regions.add_argument("--model", default="", help="a model folder whose image tower describes the regions")
    regions.add_argument("--vocabulary", default="", metavar="FILE", help="names among which the model chooses tags")
    regions.add_argument("--most", type=int, default=10, help="regions of a picture (10)")
    regions.add_argument("--least-score", type=float, default=0.0, help="of a region that is kept (0)")
    regions.add_argument("--per-file", type=int, default=1000, help="records in a file (1000)")
    regions.add_argument("--batch-size", type=int, default=32, help="pictures in memory at once (32)")
    regions.add_argument("--split", choices=("train", "validation", "test"), help="of a recipe (default: all of them)")
    regions.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a recipe's setting")


def _regions(options: argparse.Namespace) -> None:
    from equipoise.detection import Detection
    from equipoise.workflows.regions import RegionsRequest, find_regions

    wish = RegionsRequest(options.detector, options.labels, options.model, options.vocabulary)
    settings = Detection(options.most, options.least_score, options.per_file, options.batch_size)
    find_regions(wish, options.data, options.set, options.split, options.out, settings)
