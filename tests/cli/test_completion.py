"""The scripts of `equipoise completion`, tried in a real bash."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from equipoise.cli import COMMANDS
from equipoise.cli.completion import SHELLS, bash, completions, fish, zsh
from equipoise.cli.parser import build_parser
from equipoise.settings.recipe import built_in_files

PLACES = list(completions(build_parser(), tuple(built_in_files())))


def complete(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    script = f"{bash(PLACES)}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\n"
    script += f"COMP_CWORD={len(words) - 1}\n_equipoise\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert not done.stderr
    return set(done.stdout.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if not shutil.which("bash"):
        pytest.skip("there is no bash here: completion is NOT tested")
    (tmp_path / "demonstration.toml").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ev",), {"eval"}),
        (("lab", "to"), {"tokens"}),
        (("data", ""), {"check", "prepare", "--help", "-h"}),
        (("eval", "m", "--spl"), {"--split"}),
        (("eval", "m", "--split", ""), {"train", "validation", "test"}),
        (("train", "demon"), {"demonstration.toml"}),
        (("train", "dem"), {"demo", "demo-noisy", "demonstration.toml"}),
        (("train", "demo", "--out", "dem"), {"demonstration.toml"}),
        (("export", "m", "--to", "on"), {"onnx"}),
        (("completion", ""), {*SHELLS}),
    ],
)
def test_bash_offers_what_may_follow(folder: Path, words: tuple[str, ...], offered: set[str]) -> None:
    found = complete(folder, "equipoise", *words)
    assert offered <= found
    if words[-1]:
        assert found == offered


def test_every_command_and_option_is_there() -> None:
    words = {place.words: place.choices for place in PLACES if not place.after}
    assert {tuple(command.split()) for command in COMMANDS} <= set(words)
    assert "--json" in words[("eval",)]
    for script in (bash(PLACES), zsh(PLACES), fish(PLACES)):
        assert "similarities" in script


@pytest.mark.parametrize(("shell", "script"), [("zsh", zsh), ("fish", fish)])
def test_other_shells_read_their_scripts(shell: str, script, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here: its completion is NOT tested")
    file = tmp_path / "script"
    file.write_text(script(PLACES))
    assert subprocess.run([shell, "-n", str(file)], check=False, capture_output=True).returncode == 0
