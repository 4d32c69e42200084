"""The words of `equipoise simat`; what it does is in `workflows/simat.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out, add_seed, add_subject, subject_of
from equipoise.cli.numbers import up_to
from equipoise.cli.paths import local_path

EXAMPLE = "runs/demo --lambdas 0.5 1 2 4"


def add(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    parser.add_argument("--sources", type=up_to(100_000), default=200, help="scenes to start from, in dev and in test")
    add_seed(parser, "of what is replaced in scenes")
    parser.add_argument("--write", type=local_path, metavar="FOLDER", help="write the scenes in SIMAT's files as well")
    parser.add_argument(
        "--files", type=local_path, metavar="FOLDER", help="SIMAT's tables, simat_db (default: of scenes)"
    )
    parser.add_argument(
        "--images", type=local_path, metavar="FOLDER", help="Visual Genome's pictures, to cut regions from"
    )
    parser.add_argument("--crops", type=local_path, metavar="FOLDER", help="regions, cut already")
    parser.add_argument("--features", type=local_path, metavar="FOLDER", help="of regions, from `equipoise embed`")
    parser.add_argument("--oracle", default="", metavar="FILE", help='who judges: a matrix, or "exact" triplets')
    parser.add_argument("--lambdas", type=float, nargs="+", metavar="λ", help="to try (default: 0.5 to 5.5, 6 and 7)")
    parser.add_argument(
        "--split", default="both", choices=("dev", "test", "both"), help="of the questions; λ is chosen on dev"
    )
    add_out(parser, "the folder for pictures and numbers", "simat")


def run(options: argparse.Namespace) -> None:
    from equipoise.data.scenes.simat_questions import SimatSettings
    from equipoise.evaluation.simat.data import SimatFiles
    from equipoise.evaluation.simat.sweep import LAMBDAS
    from equipoise.workflows.simat import transform

    files = SimatFiles(options.files, options.images, options.crops, options.features, options.oracle)
    settings = SimatSettings(options.sources, options.seed)
    subject = subject_of(options, split="test")
    lambdas = LAMBDAS if options.lambdas is None else tuple(options.lambdas)
    transform(subject, files, settings, lambdas, options.split, options.out, options.write, options.command)
