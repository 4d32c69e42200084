"""The words of `equipoise probe`; what it does is in `workflows/probe.py`, the protocols in
`evaluation/linear_probe.py` and beside it."""

from __future__ import annotations

import argparse
from pathlib import Path

from equipoise.cli.arguments import add_data, add_model, add_results_folder, add_seed, add_set
from equipoise.cli.numbers import up_to

EXAMPLE = "runs/demo cifar10/train --test cifar10/test"
PROTOCOLS = ("lbfgs", "sgd", "sgd-sweep", "knn")


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_data(parser, "a recipe with its three splits, or files to train on")
    parser.add_argument("--test", default="", metavar="FILES", help="to test on, where the data is files")
    add_set(parser)
    parser.add_argument(
        "--protocol", choices=PROTOCOLS,
        help="L-BFGS with a sweep of C (default), SGD at one rate, MoCo v3's with a sweep, or nearest neighbours",
    )  # fmt: skip
    parser.add_argument("--sgd", action="store_true", help="the same as --protocol sgd")
    parser.add_argument(
        "--shots",
        type=up_to(2**20),
        nargs="+",
        metavar="N",
        help="the probe on so many pictures of each class; --out is few-shot unless named",
    )
    parser.add_argument("--draws", type=up_to(2**10), default=3, metavar="N", help="of the shots (default: 3)")
    parser.add_argument("--points", action="store_true", help="probe points of the space, not what the readout reads")
    parser.add_argument("--by", default="", metavar="NAMES", help="modalities to probe, such as audio (default: all)")
    add_seed(parser, "of what is held out, of the shots, and of SGD")
    add_results_folder(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.types import UserError
    from equipoise.workflows.few_shot_curve import probe_shots
    from equipoise.workflows.probe import ProbeRequest, probe_folder

    if options.sgd and options.protocol not in (None, "sgd"):
        raise UserError(f"--sgd and --protocol {options.protocol} ask for two protocols; give one")
    protocol = options.protocol or ("sgd" if options.sgd else "lbfgs")
    request = ProbeRequest(
        options.model, options.data, options.set, options.test, protocol, options.seed, options.points,
        options.by,
    )  # fmt: skip
    if options.shots:
        probe_shots(request, options.shots, options.draws, options.out or Path("few-shot"), options.command)
        return
    probe_folder(request, options.out)
