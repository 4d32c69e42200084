"""The contract of a command, checked for every line of the table: words, an example, docs/commands.md, exit status."""

from __future__ import annotations

import argparse
import io
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from cli.commands_page import PAGE, with_commands

from equipoise import __version__
from equipoise.cli import COMMANDS, main
from equipoise.cli.commands import GROUPS
from equipoise.cli.parser import build_parser, words_of

ROOT = Path(__file__).parents[2]
MEANINGS = {"DATA": ("folder", "file"), "RECIPE": ("file",)}  # what else such a word could mean, beside a recipe
VALUES = {"DATA": "none.tar", "MODEL": "runs/none"}  # for other arguments that must be given
QUESTIONS = ("--questions", "--annotations", "--val-questions", "--val-annotations")
BESIDE = {"val_data": [word for name in QUESTIONS for word in (name, "none.json")]}  # options that one goes with
BESIDE["test_data"] = [*BESIDE["val_data"], "--test-questions", "none.json"]


def reply(*words: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a call."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def parser_of(command: str) -> argparse.ArgumentParser:
    parser = build_parser()
    for word in command.split():
        (inner,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = inner.choices[word]
    return parser


def arguments(metavar: str) -> list[tuple[str, argparse.Action]]:
    """Every argument that stands for such a thing, with its command."""
    return [
        (command, action) for command in COMMANDS for action in parser_of(command)._actions if action.metavar == metavar
    ]


def call_with(command: str, argument: argparse.Action, value: str) -> list[str]:
    """The least that can be typed to give an argument a value, the required ones beside it included."""
    words = command.split()
    for action in parser_of(command)._actions:
        name = action.option_strings[:1]
        if action.dest == argument.dest:
            words += [*name, value, *BESIDE.get(action.dest, ())]
        elif action.required:
            words += [*name, VALUES.get(str(action.metavar), "none")]
    return words


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_it_does_with_an_example_that_parses(command: str) -> None:
    module, summary = COMMANDS[command]
    code, out, _ = reply(*command.split(), "--help")
    text = " ".join(out.split())
    example = f"equipoise {command} {words_of(module).EXAMPLE}".rstrip()
    assert code == 0
    assert summary[1:] in text
    assert text.endswith(f"example: {' '.join(example.split())}")
    options = build_parser().parse_args(shlex.split(example)[1:])
    assert options.run is words_of(module).run


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_ends_with_status_2_and_one_sentence(command: str) -> None:
    example = shlex.split(words_of(COMMANDS[command][0]).EXAMPLE)
    code, out, err = reply(*command.split(), *example, "--no-such-option")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("equipoise: ")
    assert "--no-such-option" in err


def test_help_lists_every_command_in_the_order_of_the_table() -> None:
    names = list(dict.fromkeys(command.split()[0] for command in COMMANDS))
    listed = re.findall(r"^ {4}(\S+)", reply("--help")[1], re.MULTILINE)
    assert listed == names
    assert {name.rpartition(" ")[0] for name in COMMANDS} == {"", *GROUPS}
    for group in GROUPS:
        inner = [command.split()[1] for command in COMMANDS if command.startswith(f"{group} ")]
        assert re.findall(r"^ {4}(\S+)", reply(group, "--help")[1], re.MULTILINE) == inner


def test_the_page_of_commands_is_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_commands(text) == text, "run python tests/cli/commands_page.py"


@pytest.mark.parametrize("module", ["equipoise", "equipoise.cli"])
def test_the_package_runs_as_a_module(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == f"equipoise {__version__}\n"


def test_the_words_of_all_commands_import_nothing_heavy() -> None:
    script = "import sys; from equipoise.cli.parser import build_parser; build_parser(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert {module for module, _ in COMMANDS.values()} <= loaded
    assert not {"torch", "numpy", "PIL", "matplotlib", "rich", "tokenizers", "equipoise.config"} & loaded


def test_every_command_with_data_or_a_recipe_is_found() -> None:
    found = {metavar: {command for command, _ in arguments(metavar)} for metavar in MEANINGS}
    assert {"data check", "embed", "audit", "vqa", "lab similarities", "train", "eval", "finetune"} <= found["DATA"]
    assert {"train", "show", "audit"} <= found["RECIPE"]
    for command in COMMANDS:  # nothing is called so that is not resolved in one place
        dests = {action.dest for action in parser_of(command)._actions if action.metavar not in MEANINGS}
        assert not dests & {"data", "recipe"}, command


@pytest.mark.parametrize(
    ("command", "argument", "kind"),
    [
        pytest.param(command, action, kind, id=f"{command} {action.dest}, a {kind}")
        for metavar, kinds in MEANINGS.items()
        for command, action in arguments(metavar)
        for kind in kinds
    ],
)
def test_a_name_that_is_a_recipe_and_something_else_is_an_error_that_says_how_to_mean_either(
    command: str, argument: argparse.Action, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir() if kind == "folder" else Path("demo").write_text("seed = 3\n")
    code, out, err = reply(*call_with(command, argument, "demo"))
    assert (code, out) == (2, "")
    for word in (f"also a {kind}", "recipe:demo", "./demo"):
        assert word in err


def test_the_page_of_commands_sorts_every_command() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    table = page.partition("## By what you want to do")[2].partition("##")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall("`(.+?)`", row)} == {name.split()[0] for name in COMMANDS}
