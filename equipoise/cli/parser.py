"""The parser of the command line, made from the table of commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn, Protocol, cast

from equipoise import __version__
from equipoise.cli.commands import ALONE, COMMANDS, GROUPS, IMPLIED
from equipoise.cli.help import Help
from equipoise.cli.numbers import finite_number, whole_number
from equipoise.cli.output import add_output_options
from equipoise.cli.trust import add_trust_options
from equipoise.cli.verify import add_verify_option
from equipoise.io.lines import one_line
from equipoise.settings.nearby import nearest

MISTAKE = 2  # the exit status


class Words(Protocol):
    """A command's module; `commands.py` says what each part is for."""

    EXAMPLE: str

    def add(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> int | None: ...


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that complains in one sentence, as the package does of every other mistake, and takes only
    numbers that can be computed with."""

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **{"formatter_class": Help, **named})
        self.register("type", int, whole_number)
        self.register("type", float, finite_number)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, unknown = self.parse_known_args(with_implied(sys.argv[1:] if args is None else args), namespace)
        if unknown:
            parser = getattr(options, "parser", self)
            first = next((word for word in unknown if word.startswith("-")), unknown[0])
            near = nearest(first.partition("=")[0], parser._option_string_actions)
            parser.error(f"{first} is not understood" + (f"; did you mean {near}?" if near else ""))
        return options

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        kind = str(action.metavar or "choice").lower() if isinstance(action, argparse._SubParsersAction) else "choice"
        near = nearest(str(value), known)
        hint = f"did you mean {near}?" if near else f"choose one of {', '.join(known)}"
        raise argparse.ArgumentError(None if kind != "choice" else action, f'there is no {kind} "{value}"; {hint}')

    def error(self, message: str) -> NoReturn:
        end = " See" if message.endswith("?") else "; see"
        print(f"equipoise: {one_line(message)}{end} {self.prog} --help", file=sys.stderr)
        self.exit(MISTAKE)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Its result has `run`, the function of the command that was chosen."""
    parser = Parser(
        prog="equipoise", description="Train, evaluate and explain contrastive image-text models on noisy pairs."
    )
    parser.add_argument("--version", action="version", version=f"equipoise {__version__}")
    groups: dict[str, Any] = {"": parser.add_subparsers(title="commands", required=True, metavar="COMMAND")}
    for name, (module, summary) in COMMANDS.items():
        group, _, last = name.rpartition(" ")
        if group not in groups:
            kind, about = GROUPS[group]
            within = groups[""].add_parser(group, help=about)
            required = group not in ALONE
            groups[group] = within.add_subparsers(title=f"{kind}s", required=required, metavar=kind.upper())
            if not required:
                within.set_defaults(run=words_of(COMMANDS[ALONE[group]][0]).run, parser=within)
        words = words_of(module)
        example = f"example: equipoise {name} {words.EXAMPLE}".rstrip()
        command = groups[group].add_parser(last, help=summary, description=_sentence(summary), epilog=example)
        words.add(command)
        add_output_options(command, last)
        add_trust_options(command, last)
        add_verify_option(command, last)
        command.set_defaults(run=words.run, parser=command)
    return parser


def with_implied(words: Sequence[str]) -> list[str]:
    """The words of a command line, with the command of a group that goes without saying: `index MODEL DATA`."""
    group, *rest = words or ("",)
    known = {name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{group} ")}
    if group in IMPLIED and rest and rest[0] not in {*known, "-h", "--help"}:
        return [group, IMPLIED[group], *rest]
    return list(words)


def words_of(module: str) -> Words:
    return cast(Words, import_module(module))


def _sentence(summary: str) -> str:
    return summary[0].upper() + summary[1:] + ("" if summary.endswith("?") else ".")
