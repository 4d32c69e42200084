"""The words of `equipoise claims run`; what it does is in `workflows/claims/run.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out
from equipoise.cli.paths import local_path

EXAMPLE = "sphere-needs-temperature --scale small"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help='claims, as `equipoise claims` lists them, or "all"')
    parser.add_argument(
        "--scale",
        choices=("small", "gpu"),
        default="small",
        help="small: minutes on two cores, and never a verdict; gpu: what verdicts are made of (default: small)",
    )
    parser.add_argument("--seeds", type=int, help="paired seeds (default: 5; 2 at the scale small)")
    parser.add_argument("--jobs", type=int, default=1, help="cells trained at once, on one core each (default: 1)")
    parser.add_argument("--minutes", type=float, help="begin no further cell after so long; the same command goes on")
    parser.add_argument(
        "--features",
        type=local_path,
        metavar="FOLDER",
        help="train.npz, validation.npz and test.npz, for claims on photographs",
    )
    parser.add_argument(
        "--data",
        dest="root",
        type=local_path,
        metavar="FOLDER",
        help="pictures and towers, for claims on COCO (docs/claims.md)",
    )
    parser.add_argument(
        "--tf32",
        action="store_true",
        help="multiply by a GPU's tensor cores (training.precision=tf32); the verdict says so",
    )
    parser.add_argument(
        "--cuda-graphs", action="store_true", help="launch a pass at once (training.cuda_graphs): more cells a minute"
    )
    parser.add_argument(
        "--compile", action="store_true", help="compile models (training.compile): fewer kernels, half a minute a model"
    )
    parser.add_argument("--commit", default="", help="what to write down as the commit, where git cannot tell")
    add_out(parser, "the folder of cells and results; the same again goes on with it", "claims")


def run(options: argparse.Namespace) -> int:
    from equipoise.workflows.claims.make import Ways
    from equipoise.workflows.claims.run import run_claims

    return run_claims(
        options.names,
        options.scale,
        options.seeds,
        options.jobs,
        options.out,
        options.minutes,
        options.commit,
        options.device,
        {name: path for name, path in (("features", options.features), ("data", options.root)) if path},
        Ways(options.tf32, options.cuda_graphs, options.compile),
    )
