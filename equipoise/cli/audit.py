"""The words of `equipoise audit`; what it does is in `auditing/`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_audit_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `audit` to the command line; `command` adds one command to a list of them."""
    about = "how many pairs of a data set are wrong, and which; which are duplicates"
    audit = command(commands, _audit, "audit", about, "'photos/{00000..00099}.tar' --out audits/photos")
    audit.add_argument("data", help="shards, a table, a folder, or a recipe whose training data to judge")
    audit.add_argument("--recipe", default="flickr8k", help="how to train the judges, where DATA is no recipe")
    audit.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a recipe's setting")
    audit.add_argument("--model", type=Path, help="a model to judge with, that was NOT trained on these pairs")
    audit.add_argument("--folds", type=int, default=2, help="judges to train, each on the pairs it does not judge")
    audit.add_argument("--neighbours", type=int, default=200, help="closest strangers to list, of each kind")
    audit.add_argument("--seed", type=int, default=0, help="of the folds")
    audit.add_argument("--out", type=Path, required=True, help="the folder; the same again goes on with it")


def _audit(options: argparse.Namespace) -> int:
    from equipoise.workflows import load
    from equipoise.workflows.audit import Audit, audit_data
    from equipoise.workflows.audit.data import find

    loaded = find(options.data, options.recipe, options.set)
    settings = Audit(folds=options.folds, neighbours=options.neighbours, seed=options.seed)
    try:
        audit_data(loaded, settings, options.out, load(options.model) if options.model else None)
    except KeyboardInterrupt:
        print("Stopped; the same command goes on where it was")
        return 130
    return 0
