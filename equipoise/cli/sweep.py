"""The words of `equipoise sweep`; what it does is in `workflows/sweep/`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import OWN_FILES, add_data, add_epochs, add_out, add_recipe, add_set, passed_on
from equipoise.cli.numbers import up_to
from equipoise.settings.recipe import find_recipe

EXAMPLE = "clip-scenes --over training.learning_rate=3e-4,1e-3,3e-3 --seeds 3 --out sweeps/rate"


def add(parser: argparse.ArgumentParser) -> None:
    add_data(parser, f"a built-in recipe's name or a TOML file; or {OWN_FILES}")
    parser.add_argument(
        "--over", action="append", required=True, metavar="KEY=A,B,C",
        help="a setting and the values to try; several are combined",
    )  # fmt: skip
    parser.add_argument("--seeds", type=up_to(1000), default=1, metavar="N", help="of every combination (default: 1)")
    parser.add_argument("--jobs", type=up_to(256), default=1, metavar="N", help="trials trained at once (default: 1)")
    add_recipe(parser, "how to train on files (default: files)", "--recipe", dest="base")
    add_epochs(parser)
    add_set(parser)
    add_out(parser, "the sweep's folder; with one that holds this sweep, go on with it", required=True)


def run(options: argparse.Namespace) -> None:
    if options.base:
        find_recipe(options.base)  # raises UserError
    from equipoise.workflows.sweep import SweepRequest, sweep

    request = SweepRequest(
        options.data, options.over, options.out, options.set, options.base or "", options.seeds, options.jobs,
        options.epochs, passed_on(options),
    )  # fmt: skip
    sweep(request, options.command)
