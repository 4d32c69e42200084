"""The words of `equipoise lab ...`; what each does is in `lab/`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.analysis.report import AnalysisReport
    from equipoise.workflows.subject import Subject

Experiment = Callable[[argparse.Namespace], "AnalysisReport"]
SPLITS = ("train", "validation", "test")


def add_lab_commands(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `lab` to the command line; `command` adds one command to a list of them."""
    lab = commands.add_parser("lab", help="experiments with a trained model: a picture, numbers and a sentence each")
    inner = lab.add_subparsers(title="experiments", required=True, metavar="EXPERIMENT")

    def add(run: Experiment, name: str, about: str, example: str) -> argparse.ArgumentParser:
        def carry_out(options: argparse.Namespace) -> None:
            run(options).write(options.out, options.typed)

        parser = command(inner, carry_out, name, about, example, "lab ")
        parser.add_argument("--out", type=Path, default=Path("lab"), help="the folder for picture and numbers")
        return parser

    about = "where alignment balances uniformity, over temperature"
    equilibrium = add(_equilibrium, "equilibrium", about, "runs/demo --batch-sizes 64 1024")
    _subject(equilibrium, "train")
    equilibrium.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 64, 256, 1024], metavar="N")
    equilibrium.add_argument(
        "--shuffle", type=float, nargs="+", default=[0, 10, 30, 50], metavar="PERCENT", help="of texts"
    )
    equilibrium.add_argument("--average", default="ratio", choices=("ratio", "parts", "log"), help="see docs/lab.md")
    equilibrium.add_argument("--highest", type=float, default=1000.0, help="temperature of the sweep")

    about = "how the temperature of runs moved, and when it converged"
    temperature = add(_temperature, "temperature", about, "runs/demo runs/other")
    temperature.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="the folder of a run")
    temperature.add_argument("--epoch-steps", type=int, help="steps of an epoch (default: from each run's data)")

    about = "the loss around the trained weights at two temperatures, and the gradient"
    landscape = add(_landscape, "landscape", about, "runs/demo --temperatures 1 100")
    _subject(landscape, "train")
    landscape.add_argument("--temperatures", type=float, nargs=2, default=[1.0, 100.0], metavar="T")
    landscape.add_argument("--batch-size", type=int, default=256, help="pairs whose loss is drawn")
    landscape.add_argument("--grid", type=int, default=21, help="places on a side, an odd number")
    landscape.add_argument("--reach", type=float, default=1.0, help="half a side, in lengths of the weights")

    about = "distributions of similarities, in and out of domain"
    similarities = add(_similarities, "similarities", about, "runs/demo --other fashion_products/train-000.tar")
    _subject(similarities, "test")
    similarities.add_argument("--other", default="", metavar="DATA", help="further data: a recipe or files")
    similarities.add_argument("--pairs", type=int, default=2000, help="drawn at most")
    similarities.add_argument("--bins", type=int, default=80)

    about = "accuracy with random subsets of the class tokens"
    tokens = add(_tokens, "tokens", about, "runs/multi --draws 20")
    _subject(tokens, "test")
    tokens.add_argument("--task", default="zero_shot", choices=("zero_shot", "retrieval"))
    tokens.add_argument("--draws", type=int, default=20, help="subsets of each size")

    about = "what class tokens add to a recipe's cost, estimated and measured"
    cost = add(_cost, "cost", about, "clip-vit-b16 --class-tokens 4 16 --batch-size 1")
    cost.add_argument("recipe", help="a built-in recipe's name or a TOML file")
    cost.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting")
    cost.add_argument("--class-tokens", type=int, nargs="+", default=[1, 2, 4, 8, 16], metavar="M")
    cost.add_argument("--batch-size", type=int, default=32, help="samples whose time is measured at once")


def _subject(parser: argparse.ArgumentParser, split: str) -> None:
    parser.add_argument("model", type=Path, help="a model folder, such as runs/demo")
    parser.add_argument("data", nargs="?", default="", help="a recipe or files (default: the data it was trained on)")
    parser.add_argument("--split", default=split, choices=SPLITS, help="of a recipe's data")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the data")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn at random")


def _asked(options: argparse.Namespace) -> Subject:
    from equipoise.workflows.subject import Subject

    return Subject(options.model, options.data, options.set, options.split, options.seed)


def _equilibrium(options: argparse.Namespace) -> AnalysisReport:
    from equipoise.workflows.lab.equilibrium import find_equilibrium

    return find_equilibrium(_asked(options), options.batch_sizes, options.shuffle, options.average, options.highest)


def _temperature(options: argparse.Namespace) -> AnalysisReport:
    from equipoise.workflows.lab.temperature import follow_temperature

    return follow_temperature(options.runs, options.epoch_steps)


def _landscape(options: argparse.Namespace) -> AnalysisReport:
    from equipoise.workflows.lab.landscape import draw_around

    low, high = options.temperatures
    return draw_around(_asked(options), (low, high), options.batch_size, options.grid, options.reach)


def _similarities(options: argparse.Namespace) -> AnalysisReport:
    from equipoise.workflows.lab.similarities import compare_similarities

    return compare_similarities(_asked(options), options.other, options.pairs, options.bins)


def _tokens(options: argparse.Namespace) -> AnalysisReport:
    from equipoise.workflows.lab.tokens import leave_tokens_out

    return leave_tokens_out(_asked(options), options.task, options.draws)


def _cost(options: argparse.Namespace) -> AnalysisReport:
    from equipoise.workflows.lab.cost import measure_cost

    return measure_cost(options.recipe, options.set, options.class_tokens, options.batch_size)
