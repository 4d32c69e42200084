"""The words of `equipoise simat`; what it does is in `workflows/simat.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_simat_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `simat` to the command line; `command` adds one command to a list of them."""
    about = "find pictures with one word changed, by a picture plus the difference of two words (SIMAT)"
    simat = command(commands, _simat, "simat", about, "runs/demo --lambdas 0.5 1 2 4")
    simat.add_argument("model", type=Path, help="a model folder, such as runs/demo")
    simat.add_argument("data", nargs="?", default="", help="a recipe of scenes (default: the data it was trained on)")
    simat.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the data")
    simat.add_argument("--sources", type=int, default=200, help="scenes to start from, in dev and in test")
    simat.add_argument("--seed", type=int, default=0, help="of what is replaced in scenes")
    simat.add_argument("--write", type=Path, metavar="FOLDER", help="write the scenes in SIMAT's files as well")
    simat.add_argument("--files", type=Path, metavar="FOLDER", help="SIMAT's tables, simat_db (default: of scenes)")
    simat.add_argument("--images", type=Path, metavar="FOLDER", help="Visual Genome's pictures, to cut regions from")
    simat.add_argument("--crops", type=Path, metavar="FOLDER", help="regions, cut already")
    simat.add_argument("--features", type=Path, metavar="FOLDER", help="of regions, from `equipoise embed`")
    simat.add_argument("--oracle", default="", metavar="FILE", help='who judges: a matrix, or "exact" triplets')
    simat.add_argument("--lambdas", type=float, nargs="+", metavar="λ", help="to try (default: 0.5 to 5.5, 6 and 7)")
    simat.add_argument("--split", default="both", choices=("dev", "test", "both"), help="λ is chosen on dev")
    simat.add_argument("--out", type=Path, default=Path("simat"), help="the folder for pictures and numbers")


def _simat(options: argparse.Namespace) -> None:
    from equipoise.data.scenes.simat_questions import SimatSettings
    from equipoise.evaluation.simat.sweep import LAMBDAS
    from equipoise.workflows.simat import transform
    from equipoise.workflows.simat_data import SimatFiles
    from equipoise.workflows.subject import Subject

    files = SimatFiles(options.files, options.images, options.crops, options.features, options.oracle)
    settings = SimatSettings(options.sources, options.seed)
    subject = Subject(options.model, options.data, options.set, "test", options.seed)
    lambdas = LAMBDAS if options.lambdas is None else tuple(options.lambdas)
    transform(subject, files, settings, lambdas, options.split, options.out, options.write, options.typed)
