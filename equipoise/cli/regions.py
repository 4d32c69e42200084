"""The words of `equipoise regions`; what it does is in `workflows/regions.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_engine, add_files, add_out, engine_of
from equipoise.cli.paths import folder_or_store

EXAMPLE = "'photos/{00000..00099}.tar' --out photos/regions"


def add(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    add_out(
        parser,
        "the folder for the regions; go on with it if stopped, in a store too (s3://...)",
        kind=folder_or_store,
        required=True,
    )
    parser.add_argument(
        "--detector", default="salient", metavar="FILE",
        help="salient (the default, needs no file), given (boxes and tags of the .json), or a .pt, .pt2 or .onnx file",
    )  # fmt: skip
    parser.add_argument("--labels", default="", metavar="FILE", help="names of the detector's classes, one per line")
    parser.add_argument(
        "--model", default="", metavar="MODEL", help="a model folder whose image tower describes the regions"
    )
    parser.add_argument("--vocabulary", default="", metavar="FILE", help="names among which the model chooses tags")
    parser.add_argument("--most", type=int, default=10, help="regions per picture")
    parser.add_argument("--least-score", type=float, default=0.0, help="of a region that is kept")
    parser.add_argument("--per-file", type=int, default=1000, help="records per file")
    parser.add_argument("--batch-size", type=int, default=32, help="pictures in memory at once")
    add_engine(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.detection import Detection
    from equipoise.workflows.regions import RegionsRequest, find_regions

    request = RegionsRequest(options.detector, options.labels, options.model, options.vocabulary)
    settings = Detection(options.most, options.least_score, options.per_file, options.batch_size)
    find_regions(request, options.data, options.set, options.split, options.out, settings, engine_of(options))
