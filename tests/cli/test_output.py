"""--json prints one object and nothing else, --quiet hides progress, --device reaches every model."""

from __future__ import annotations

import argparse
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch

from equipoise.cli import COMMANDS, main
from equipoise.cli.output import NO_MODEL, NO_NUMBERS, printed_as_asked
from equipoise.cli.parser import build_parser, words_of
from equipoise.io.numbers import as_json, hand_over
from equipoise.io.progress import Progress, quiet
from equipoise.training.device import choosing_device, torch_device
from equipoise.types import UserError


def call(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def inner_parser(command: str) -> argparse.ArgumentParser:
    parser = build_parser()
    for word in command.split():
        (inner,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = inner.choices[word]
    return parser


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_options_that_it_needs(command: str) -> None:
    options, last = inner_parser(command)._option_string_actions, command.rsplit(maxsplit=1)[-1]
    assert ("--json" in options) == (last not in NO_NUMBERS)
    assert ("--quiet" in options) == (last not in NO_NUMBERS)
    assert ("--device" in options) == (last not in NO_MODEL)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_every_default(command: str) -> None:
    text = " ".join(inner_parser(command).format_help().split())
    for action in inner_parser(command)._actions:
        if action.option_strings and action.default not in (None, "", False, argparse.SUPPRESS, []):
            assert "default" in text, action.option_strings
            assert action.help, f"{action.option_strings} has no help"
    assert words_of(COMMANDS[command][0]).EXAMPLE in text


def test_json_is_all_of_standard_output(finished_run: Path) -> None:
    code, out, err = call("eval", finished_run, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["command"].startswith("equipoise eval")
    assert 0 <= found["results"]["retrieval"]["metrics"]["text_to_image_R@1"] <= 1
    assert "text_to_image_R@1" in found["results"]["retrieval"]["chance"]
    assert "metric" in err  # the table is for people
    _, out, err = call("eval", finished_run, "--json", "--quiet")
    assert json.loads(out)["results"] == found["results"]
    assert err == ""


def test_a_mistake_prints_no_object(tmp_path: Path) -> None:
    code, out, err = call("eval", tmp_path / "nowhere", "--json")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_settings_and_recipes_as_json() -> None:
    assert json.loads(call("show", "demo", "--json")[1])["settings"]["name"] == "demo"
    recipes = json.loads(call("recipes", "--json")[1])["recipes"]
    assert {"name", "paper", "summary"} == set(recipes[0])


def test_what_is_no_number_is_null_and_without_a_taker_nothing_happens() -> None:
    hand_over({"lost": 1})
    assert json.loads(as_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": torch.tensor(2).numpy()})) == {
        "a": None, "b": [None, 1.5], "c": 2,
    }  # fmt: skip


def test_a_chosen_device_goes_before_settings() -> None:
    with choosing_device("meta"), pytest.raises(UserError, match="meta"):
        torch_device("cpu")
    with choosing_device("cpu"):
        assert torch_device("cuda") == torch.device("cpu")
    assert torch_device("cpu") == torch.device("cpu")


def test_device_reaches_a_model_that_the_driver_loads(finished_run: Path) -> None:
    code, _, err = call("completeness", finished_run, "--device", "nonsense")
    assert code == 2
    assert "'nonsense'" in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_shows_on_a_terminal_unless_quiet_and_only_one_at_a_time() -> None:
    for silent in (False, True):
        screen = Terminal()
        with redirect_stderr(screen), quiet(silent), Progress(10, "outside") as outer:
            with Progress(5, "inside") as inner:  # a second live display would be an error of rich
                inner.update(5)
                inner.note("a remark")
            outer.update(10)
        assert ("outside" in screen.getvalue()) != silent
        assert ("a remark" in screen.getvalue()) != silent
        assert "inside" not in screen.getvalue()


def test_evaluation_shows_a_bar_on_a_terminal_and_no_line_in_a_pipe(finished_run: Path) -> None:
    screen = Terminal()
    with redirect_stderr(screen), redirect_stdout(io.StringIO()):
        assert main(["eval", str(finished_run)]) == 0
    assert "pictures" in screen.getvalue()
    assert "texts" in screen.getvalue()
    assert call("eval", finished_run)[2] == ""


def test_commands_without_the_options_are_left_alone() -> None:
    with printed_as_asked(argparse.Namespace(command="equipoise cite demo")):
        hand_over({"a": 1})
