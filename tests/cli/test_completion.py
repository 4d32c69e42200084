"""The scripts of `equipoise completion`, tried in the shells themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from equipoise.cli import COMMANDS
from equipoise.cli.completion import SHELLS, bash, completions, fish, zsh
from equipoise.cli.parser import build_parser
from equipoise.settings.recipe import built_in_files

PLACES = list(completions(build_parser(), tuple(built_in_files())))


# zsh asks bash's function, as in a line that is typed; what would be added to the line is printed.
ZSH = """
autoload -U +X compinit && compinit -D -u
{script}
compset() {{ return 1 }}
compadd() {{ print -rl -- "${{(@M)${{(@P)argv[-1]}}:#${{PREFIX}}*}}" }}
words=({words}) CURRENT=$#words PREFIX=$words[-1]
_bash_complete -o filenames -F _equipoise
"""


def by_bash(words: Sequence[str]) -> list[str]:
    script = f"{bash(PLACES)}\nCOMP_WORDS=({_quoted(words)})\nCOMP_CWORD={len(words) - 1}\n_equipoise\n"
    return ["bash", "-c", script + "printf '%s\\n' \"${COMPREPLY[@]}\""]


def by_zsh(words: Sequence[str]) -> list[str]:
    return ["zsh", "-f", "-c", ZSH.format(script=zsh(PLACES), words=_quoted(words))]


def by_fish(words: Sequence[str]) -> list[str]:
    return ["fish", "--no-config", "-c", f"{fish(PLACES)}\ncomplete -C {shlex.quote(' '.join(words))}"]


def _quoted(words: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, words))


ASK = {"bash": by_bash, "zsh": by_zsh, "fish": by_fish}


def complete(shell: str, folder: Path, *words: str) -> set[str]:
    """What a shell offers for the last of the words."""
    home = {**os.environ, "HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "home")}
    done = subprocess.run(ASK[shell](words), cwd=folder / "work", capture_output=True, text=True, check=True, env=home)
    assert not done.stderr
    return {line.partition("\t")[0] for line in done.stdout.splitlines() if line}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "work" / "demonstration.toml").touch()
    return tmp_path


@pytest.mark.parametrize("shell", ASK)
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ev",), {"eval"}),
        (("lab", "to"), {"tokens"}),
        (("data", ""), {"check", "prepare"}),
        (("eval", "m", "--spl"), {"--split"}),
        (("eval", "m", "--split", ""), {"train", "validation", "test"}),
        (("train", "demon"), {"demonstration.toml"}),
        (("train", "dem"), {"demo", "demo-noisy", "demonstration.toml"}),
        (("train", "demo", "--out", "dem"), {"demonstration.toml"}),
        (("export", "m", "--to", "on"), {"onnx"}),
        (("completion", ""), {*SHELLS}),
    ],
)
def test_a_shell_offers_what_may_follow(shell: str, folder: Path, words: tuple[str, ...], offered: set[str]) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here: its completion is NOT tested")
    found = complete(shell, folder, "equipoise", *words)
    assert offered <= found
    if words[-1]:
        assert found == offered


def test_every_command_and_option_is_there() -> None:
    words = {place.words: place.choices for place in PLACES if not place.after}
    assert {tuple(command.split()) for command in COMMANDS} <= set(words)
    assert "--json" in words[("eval",)]
    for script in (bash(PLACES), zsh(PLACES), fish(PLACES)):
        assert "similarities" in script
