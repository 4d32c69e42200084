"""The command line: read the words, call one function. A user's mistake is one sentence on standard error."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from equipoise import __version__
from equipoise.cli import clean
from equipoise.cli.audit import add_audit_command
from equipoise.cli.codes import add_codes_command
from equipoise.cli.completeness import add_completeness_command
from equipoise.cli.convert import add_exchange_commands
from equipoise.cli.data import add_data_commands
from equipoise.cli.embed import add_embed_command
from equipoise.cli.finetune import add_finetune_command
from equipoise.cli.lab import add_lab_commands
from equipoise.cli.probe import add_probe_command
from equipoise.cli.regions import add_regions_command
from equipoise.cli.shift import add_shift_command
from equipoise.cli.simat import add_simat_command
from equipoise.cli.vqa import add_vqa_command
from equipoise.types import UserError

STOPPED, MISTAKE = 130, 2


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments, argparse.Namespace(typed=shlex.join(["equipoise", *arguments])))
    with warnings.catch_warnings():
        warnings.showwarning = _warn  # type: ignore[assignment]
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        code = options.run(options) or 0
        sys.stdout.flush()  # so that a full disk or a closed pipe shows here and not at exit
        return code
    except UserError as error:
        return _say(str(error), MISTAKE)
    except KeyboardInterrupt:
        return _say("stopped", STOPPED)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _drop_output()
        return 0
    except OSError as error:
        _drop_output()
        return _say(f"{error}; check the disk and the paths given", MISTAKE)
    except RuntimeError as error:
        return _say(_about_lost_worker(error), MISTAKE)


def _about_lost_worker(error: RuntimeError) -> str:
    """The death of a process that reads data interrupts whatever is being done; any other error is raised again."""
    from equipoise.data.prefetch import lost_worker

    sentence = lost_worker(error)
    if sentence is None:
        raise error
    return sentence


def _say(sentence: str, code: int) -> int:
    print(f"equipoise: {sentence}", file=sys.stderr)
    return code


def _warn(message: Warning | str, *_: object) -> None:
    print(f"equipoise: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _drop_output() -> None:
    """What could not be printed is not tried again at exit."""
    with suppress(OSError):  # a standard output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Complains in one line, as every other mistake does."""

    def error(self, message: str) -> NoReturn:
        self.exit(_say(f"{message}; see {self.prog} --help", MISTAKE))


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="equipoise", description="Train, evaluate and explain contrastive image-text models on noisy pairs."
    )
    parser.add_argument("--version", action="version", version=f"equipoise {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = _command(commands, _demo, "demo", "train a small CLIP on noisy scenes, evaluate it and write a report", "")
    _run_options(demo)

    train = _command(
        commands,
        _train,
        "train",
        "train a model from a recipe",
        "clip-scenes --set training.steps=2000 --out runs/mine",
    )
    train.add_argument("recipe", nargs="?", help="a built-in recipe's name or a TOML file")
    train.add_argument(
        "--resume", nargs="?", const="", metavar="FOLDER",
        help="go on with the run in FOLDER, or in --out; with a recipe, start it where there is none",
    )  # fmt: skip
    train.add_argument(
        "--clean", action="store_true", help="judge the pairs first and train on those that look right ([clean])"
    )
    _run_options(train)

    add_finetune_command(commands, _command)
    evaluate = _command(
        commands, _eval, "eval", "evaluate a model folder", "runs/demo clip-scenes --set data.shift=rotation"
    )
    evaluate.add_argument("model", type=Path, help="a model folder, such as runs/demo")
    evaluate.add_argument("data", nargs="?", help="a recipe whose data to use (default: the data it was trained on)")
    evaluate.add_argument("--split", default="test", choices=("train", "validation", "test"))
    evaluate.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the data's recipe"
    )
    evaluate.add_argument(
        "--before", type=Path, metavar="MODEL", help="a model folder too: what became of its accuracies, shifts and all"
    )
    evaluate.add_argument("--out", type=Path, help="write the results as JSON to this folder")
    evaluate.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 (default: a GPU where there is one)")

    add_embed_command(commands, _command)
    add_exchange_commands(commands, _command)
    add_lab_commands(commands, _command)
    add_codes_command(commands, _command)
    add_completeness_command(commands, _command)
    add_vqa_command(commands, _command)
    add_simat_command(commands, _command)
    add_probe_command(commands, _command)
    add_audit_command(commands, _command)
    clean.add(_command(commands, clean.run, "clean", clean.SUMMARY, clean.EXAMPLE))
    add_shift_command(commands, _command)

    show = _command(commands, _show, "show", "print a recipe with every setting resolved", "demo --set seed=3")
    cite = _command(commands, _cite, "cite", "print the papers a recipe rests on, as BibTeX", "demo")
    for command in (show, cite):
        command.add_argument("recipe", help="a built-in recipe's name or a TOML file")
        command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting")
    _command(commands, _recipes, "recipes", "list the built-in recipes", "")

    _scenes_commands(commands)
    add_data_commands(commands, _command)
    add_regions_command(commands, _command)
    return parser


def _scenes_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    scenes = commands.add_parser("scenes", help="look at the built-in corpus, or write it as shards")
    inner = scenes.add_subparsers(title="commands", required=True, metavar="COMMAND")
    preview = _command(
        inner,
        _scenes_preview,
        "preview",
        "write a contact sheet of scenes with their captions",
        "--count 12",
        "scenes ",
    )
    write = _command(
        inner, _scenes_write, "write", "write WebDataset shards with the truth in .json", "shards --size 64", "scenes "
    )
    preview.add_argument("--out", type=Path, default=Path("scenes.png"))
    preview.add_argument("--count", type=int, default=16, help="how many scenes")
    write.add_argument("folder", type=Path)
    write.add_argument("--per-shard", type=int, default=1000)
    for command, size in ((preview, 192), (write, 64)):
        command.add_argument("--recipe", default="demo", help="the recipe whose scenes to draw")
        command.add_argument("--split", default="train", choices=("train", "validation", "test"))
        command.add_argument("--size", type=int, default=size, help="pixels on a side")
        command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    run: Callable[[argparse.Namespace], int | None],
    name: str,
    summary: str,
    example: str,
    before: str = "",
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:  equipoise {before}{name} {example}".rstrip(),
    )  # fmt: skip
    parser.set_defaults(run=run)
    return parser


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting, e.g. seed=3")
    parser.add_argument("--out", type=Path, help="the run's folder (default: a new one under runs/)")


def _demo(options: argparse.Namespace) -> int:
    from equipoise.workflows import run_recipe

    return run_recipe("demo", options.set, options.out, command=options.typed)


def _train(options: argparse.Namespace) -> int:
    resume, named = options.resume is not None, Path(options.resume) if options.resume else None
    if named and options.out:
        raise UserError("give the run's folder once: --resume FOLDER, or --out FOLDER --resume")
    folder = named or options.out
    if not options.recipe and not (resume and folder):
        raise UserError("nothing to train: give a recipe, or --resume FOLDER")
    from equipoise.workflows import resume_folder, run_recipe

    overrides = [*options.set, *(["clean.enabled=true"] if options.clean else [])]
    if options.recipe:
        return run_recipe(options.recipe, overrides, folder, command=options.typed, resume=resume)
    return resume_folder(folder, overrides, command=options.typed)


def _eval(options: argparse.Namespace) -> None:
    from equipoise.workflows import evaluate_folder

    words = (options.model, options.data, options.set, options.split, options.out, options.device)
    evaluate_folder(*words, before=options.before)


def _show(options: argparse.Namespace) -> None:
    from equipoise.config import dump, load_run

    print(dump(load_run(options.recipe, options.set).table), end="")


def _cite(options: argparse.Namespace) -> None:
    from equipoise.citations import bibliography
    from equipoise.config import load_run

    print(bibliography(load_run(options.recipe, options.set).run))


def _recipes(_: argparse.Namespace) -> None:
    from equipoise.settings.recipe import builtin_recipes

    for name, summary in builtin_recipes().items():
        print(f"{name:24} {summary}")


def _scenes_preview(options: argparse.Namespace) -> None:
    from equipoise.workflows import preview

    preview(options.recipe, options.set, options.split, options.count, options.size, options.out)


def _scenes_write(options: argparse.Namespace) -> None:
    from equipoise.workflows import write_data

    write_data(options.recipe, options.set, options.split, options.size, options.per_shard, options.folder)


if __name__ == "__main__":
    sys.exit(main())
