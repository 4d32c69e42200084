"""Stored settings run no shell command and write nowhere (S1): by every command that reads a model's own data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from security.hostile import COMMANDS, OF_ITS_OWN_DATA, copied, refusal, with_table

import equipoise as eq
from equipoise.cli import main

pytest.importorskip("webdataset")
BEFORE = Path(__file__).parent.parent / "before"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shard(place: Path) -> Path:
    words = ("--split", "test", "--size", "32", "--set", "data.test_size=12")
    assert main(["scenes", "write", "shards", *words]) == 0
    (shard,) = (place / "shards").glob("*.tar")
    return shard


def shards(url: str, cache: str = "taken") -> str:
    """The settings of data that all splits read from one place."""
    splits = "\n".join(f"{split} = {json.dumps(url)}" for split in ("train", "validation", "test"))
    return f'name = "shards"\n{splits}\ncache = "{cache}"'


@pytest.mark.parametrize("words", ["", "--allow-pipe"])
@pytest.mark.parametrize("command", OF_ITS_OWN_DATA)
def test_no_command_runs_a_stored_shell_command(
    command: str, words: str, place: Path, finished_run: Path, fdt_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if words and command == "lab temperature":
        pytest.skip("it has no such word: its data cannot be named")
    folders = {"model": finished_run, "coded": fdt_run, "run": BEFORE / "run"}
    for name, folder in folders.items():
        copied(folder, place / name, "data", shards("pipe:touch RAN; cat x.tar"))
    sentence = refusal(capsys, [*COMMANDS[command].format(**{name: name for name in folders}).split(), *words.split()])
    assert "pipe:touch RAN; cat x.tar: this is a shell command" in sentence
    assert not (place / "RAN").exists()
    assert not (place / "taken").exists()


def test_a_model_whose_data_were_piped_is_loaded_all_the_same(place: Path, finished_run: Path) -> None:
    copied(finished_run, place / "model", "data", shards("pipe:touch RAN"))
    eq.load("model")
    assert main(["eval", "model", "demo", "--set", "data.test_size=8"]) == 0
    assert not (place / "RAN").exists()


def test_a_recipes_shell_command_needs_a_word(place: Path, shard: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "piped.toml").write_text(f"[data]\n{shards(f'pipe:touch RAN; cat {shard}', 'copies')}\n")
    assert "--allow-pipe" in refusal(capsys, ["data", "check", "piped.toml"])
    assert "--allow-pipe" in refusal(capsys, ["train", "piped.toml"])
    assert "--allow-pipe" in refusal(capsys, ["data", "check", f"pipe:touch RAN; cat {shard}"])
    assert main(["show", "piped.toml"]) == 0
    assert not (place / "RAN").exists()
    assert main(["data", "check", "piped.toml", "--split", "test", "--allow-pipe"]) == 0
    assert (place / "RAN").exists()


def test_a_shell_command_of_the_command_line_needs_a_word(
    place: Path, shard: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied(finished_run, place / "model", "data", shards("pipe:touch BAD"))
    words = ["eval", "model", "--set", f"data.test=pipe:cat {shard}", "--set", "data.cache=copies"]
    assert "--allow-pipe" in refusal(capsys, words)
    assert not (place / "copies").exists()
    assert main([*words, "--allow-pipe"]) == 0
    assert not (place / "BAD").exists()
    assert not (place / "taken").exists()


def test_stored_settings_name_no_folder_to_write_to(
    place: Path, shard: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = copied(finished_run, place / "model", "data", shards(f"file:{shard}", "../taken"))
    assert "data.cache" in refusal(capsys, ["eval", "model"])
    with_table(model, "data", shards(str(shard), "../taken"))
    assert main(["eval", "model"]) == 0  # local files are read, and no index of them is kept
    assert not (place.parent / "taken").exists()
    assert main(["eval", "model", "--set", "data.cache=mine"]) == 0
    assert (place / "mine" / "indices").is_dir()


@pytest.mark.parametrize("url", ["http://localhost/x.tar", "https://localhost/'$(touch RAN)'.tar", "PIPE:touch RAN"])
def test_other_urls_of_stored_settings_are_refused(
    url: str, place: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied(finished_run, place / "model", "data", shards(url))
    refusal(capsys, ["eval", "model", "--set", "data.cache=mine"])
    assert not (place / "RAN").exists()
    assert not (place / "mine").exists()
