"""The arguments that several commands share, each worded once, and what the drivers make of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.cli.numbers import seed_number
from equipoise.cli.paths import local_path

if TYPE_CHECKING:
    from equipoise.workflows.engines import Engine
    from equipoise.workflows.subject import Subject

SPLITS = ("train", "validation", "test")
MODEL = "a model folder, such as runs/demo"
OWN_FILES = "shards, a table (CSV, TSV, Parquet, JSON) or a folder of pictures"
FILES = "shards, a table, a folder of class folders, or a recipe that reads such"


def add_model(parser: argparse.ArgumentParser, help: str = MODEL, kind: Callable[[str], Any] = local_path) -> None:
    parser.add_argument("model", type=kind, metavar="MODEL", help=help)


def add_data(parser: argparse.ArgumentParser, help: str, name: str = "data", **more: Any) -> None:
    """DATA: a recipe or files, which `workflows/subject.py` tells apart."""
    parser.add_argument(name, metavar="DATA", help=help, **more)


JUDGES = "how to train the judges of files (default: files, with sizes that follow the data)"


def add_recipe(
    parser: argparse.ArgumentParser,
    help: str = "a built-in recipe's name or a TOML file",
    name: str = "recipe",
    **more: Any,
) -> None:
    """RECIPE: a built-in recipe's name or a TOML file, and no files of data."""
    parser.add_argument(name, metavar="RECIPE", help=help, **more)


def add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the recipe, e.g. seed=3"
    )


def add_pictures(parser: argparse.ArgumentParser) -> None:
    """--pictures DATA, for commands that show records which may be features."""
    parser.add_argument(
        "--pictures",
        default="",
        metavar="DATA",
        help="what features were made of, to show it and to find copies in it, such as 'photos/{00000..00099}.tar' "
        "beside recipe:features --set data.train=features/photos; shards, a table, a folder, or a recipe",
    )


def add_split(
    parser: argparse.ArgumentParser,
    default: str | None,
    help: str = "of a recipe's data",
    choices: tuple[str, ...] = SPLITS,
    shown: str = "",
) -> None:
    """--split; without a default the driver takes all splits, or what is `shown`."""
    help = f"{help} (default: {default or shown or 'all of them'})"
    parser.add_argument("--split", default=default, choices=choices, help=help)


def add_out(
    parser: argparse.ArgumentParser,
    help: str,
    default: str | None = None,
    *,
    required: bool = False,
    kind: Callable[[str], Any] = local_path,
) -> None:
    """--out FOLDER; without a default the driver chooses one, or writes nothing."""
    ending = f" (default: {default})" if default else ""
    place = Path(default) if default else None
    parser.add_argument("--out", type=kind, metavar="FOLDER", default=place, required=required, help=help + ending)


def add_run_folder(parser: argparse.ArgumentParser) -> None:
    add_out(parser, "the run's folder (default: a new one under runs/)")


def add_results_folder(parser: argparse.ArgumentParser) -> None:
    add_out(parser, "write the results as JSON to this folder")


def add_seed(parser: argparse.ArgumentParser, help: str = "of what is drawn at random") -> None:
    parser.add_argument("--seed", type=seed_number, default=0, help=help)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """--engine and --processes: who does the work of a command that reads a whole data set."""
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="who does the work: this machine, or Ray on it or on the cluster of RAY_ADDRESS (default: local)",
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="processes that share it (default: 1; with ray as many as there is room for)",
    )


def engine_of(options: argparse.Namespace) -> Engine:
    from equipoise.workflows.engines import Engine

    return Engine(options.engine, options.processes)


def add_epochs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--epochs", type=float, metavar="N", help="so many times through the data (training.epochs)")


def add_files(parser: argparse.ArgumentParser) -> None:
    """DATA as pictures in files, for commands that read every record: all splits of a recipe unless one is named."""
    add_data(parser, FILES)
    add_split(parser, None)
    add_set(parser)


def add_subject(parser: argparse.ArgumentParser, model: str = MODEL) -> None:
    """MODEL, DATA (by default what the model was trained on) and --set: what an experiment looks at."""
    add_model(parser, model)
    add_data(parser, "a recipe or files (default: the data it was trained on)", nargs="?", default="")
    add_set(parser)


def subject_of(options: argparse.Namespace, split: str = "") -> Subject:
    from equipoise.workflows.subject import Subject

    seed = getattr(options, "seed", 0)
    return Subject(options.model, options.data, options.set, split or options.split, seed)


def passed_on(options: argparse.Namespace) -> list[str]:
    """The words of a command that the ones it starts itself get too."""
    device = [] if options.device == "auto" else ["--device", options.device]
    trust = [word for package in options.trust for word in ("--trust", package)]
    return [*device, *trust, *(["--allow-pipe"] if options.allow_pipe else [])]
