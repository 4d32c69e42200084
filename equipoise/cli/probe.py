"""The words of `equipoise probe`; what it does is in `workflows/probe.py`, the protocols in
`evaluation/linear_probe.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_probe_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `probe` to the command line; `command` adds one command to a list of them."""
    about = "train a linear map on frozen features, to tell classes apart"
    probe = command(commands, _probe, "probe", about, "runs/demo cifar10/train --test cifar10/test")
    probe.add_argument("model", type=Path, help="a model folder, such as runs/demo")
    probe.add_argument("data", help="a recipe with its three splits, or files to train on")
    probe.add_argument("--test", default="", metavar="FILES", help="to test on, where the data is files")
    probe.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a recipe's setting")
    probe.add_argument("--sgd", action="store_true", help="MoCo v3's protocol instead of L-BFGS with a sweep")
    probe.add_argument("--seed", type=int, default=0, help="of what is held out, and of SGD")
    probe.add_argument("--out", type=Path, help="write the results as JSON to this folder")


def _probe(options: argparse.Namespace) -> None:
    from equipoise.workflows.probe import ProbeRequest, probe_folder

    words = (options.model, options.data, options.set, options.test, options.sgd, options.seed)
    probe_folder(ProbeRequest(*words), options.out)
