"""The words of `equipoise benchmark`; what it does is in `workflows/benchmark/`."""

from __future__ import annotations

import argparse
from pathlib import Path

from equipoise.cli.paths import local_path

EXAMPLE = "runs/demo open_clip:ViT-B-32 --suite zero-shot --data sets --out bench"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="*", metavar="MODEL",
        help="a model folder, one of transformers or open_clip, a folder of ONNX programs, or open_clip:NAME[:WEIGHTS]",
    )  # fmt: skip
    parser.add_argument(
        "--suite", default="papers", metavar="SUITE",
        help="papers, retrieval, zero-shot, image-to-image, a set's name, or a TOML file of sets (default: papers)",
    )  # fmt: skip
    parser.add_argument("--data", dest="root", type=local_path, metavar="ROOT", help="the folder that the sets lie in")
    parser.add_argument("--only", action="append", default=[], metavar="SET", help="this set of the suite; repeatable")
    parser.add_argument(
        "--baseline", action="append", default=[], metavar="MODEL",
        help="one of the models, or a CSV of accuracies (model,set,accuracy), that effective robustness goes by",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="say what each set needs and where it must lie")
    parser.add_argument("--skip-missing", action="store_true", help="leave out sets that are not below ROOT")
    parser.add_argument("--download", action="store_true", help="fetch sets and weights that are missing from the hub")
    parser.add_argument(
        "--out", type=local_path, default=Path("benchmark"), metavar="FOLDER",
        help="cells, features and the page; the same again goes on with it (default: benchmark)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> None:
    from equipoise.types import UserError
    from equipoise.workflows.benchmark import BenchmarkRequest, list_sets, run_benchmark

    if options.list:
        list_sets(options.suite, options.root)
        return
    if options.root is None:
        raise UserError("--data ROOT is missing: the folder that the sets lie in; --list says what each needs")
    run_benchmark(
        BenchmarkRequest(
            tuple(options.models), options.suite, options.root, options.out, tuple(options.only),
            options.skip_missing, options.download, options.device, tuple(options.baseline),
        )
    )  # fmt: skip
