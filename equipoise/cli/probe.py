"""The words of `equipoise probe`; what it does is in `workflows/probe.py`, the protocols in
`evaluation/linear_probe.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_data, add_model, add_results_folder, add_seed, add_set

EXAMPLE = "runs/demo cifar10/train --test cifar10/test"


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_data(parser, "a recipe with its three splits, or files to train on")
    parser.add_argument("--test", default="", metavar="FILES", help="to test on, where the data is files")
    add_set(parser)
    parser.add_argument("--sgd", action="store_true", help="MoCo v3's protocol instead of L-BFGS with a sweep")
    parser.add_argument("--points", action="store_true", help="probe points of the space, not what the readout reads")
    add_seed(parser, "of what is held out, and of SGD")
    add_results_folder(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.probe import ProbeRequest, probe_folder

    request = (options.model, options.data, options.set, options.test, options.sgd, options.seed, options.points)
    probe_folder(ProbeRequest(*request), options.out)
