"""`push` and `pull`: a model folder to a plain folder and back, and what is refused. No test reaches the network."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import equipoise as eq
from equipoise.cli import main
from equipoise.models.folder import MODEL_FILES
from equipoise.types import UserError
from equipoise.workflows import pull_model, push_model


def test_there_and_back(finished_run: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["push", str(finished_run), "./shared"]) == 0
    assert "shared holds the model of" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "shared").iterdir()}
    assert names == {*MODEL_FILES, "metrics.json", "README.md", "digests.json"}  # no log, no checkpoints
    card = (tmp_path / "shared" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: equipoise\n")
    assert (finished_run / "README.md").read_text() in card
    assert main(["pull", "./shared", "models/back"]) == 0
    for name in MODEL_FILES:
        assert (tmp_path / "models" / "back" / name).read_bytes() == (finished_run / name).read_bytes()
    texts = ["a red star"]
    assert torch.equal(eq.load("models/back").encode_text(texts), eq.load(finished_run).encode_text(texts))
    push_model(Path("models/back"), "./again")  # the header is written once
    assert (tmp_path / "again" / "README.md").read_text() == card


def test_what_was_changed_on_the_way_is_refused(finished_run: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    push_model(finished_run, "./shared")
    (tmp_path / "shared" / "evil.py").write_text("raise SystemExit('ran')")
    pull_model("./shared", tmp_path / "fine")
    assert not (tmp_path / "fine" / "evil.py").exists()
    config = tmp_path / "shared" / "config.toml"
    config.write_text(config.read_text() + "\n")
    with pytest.raises(UserError, match=r"config\.toml was changed"):
        pull_model("./shared", tmp_path / "back")
    with pytest.raises(UserError, match=r"config\.toml was changed"):
        push_model(tmp_path / "shared", "./other")
    assert not (tmp_path / "back").exists()
    assert not (tmp_path / "other").exists()


def test_names_and_places_that_are_wrong(finished_run: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="mine is no name of the hub, ORG/NAME"):
        push_model(finished_run, "mine")
    with pytest.raises(UserError, match="a/b/c is no name of the hub"):
        pull_model("a/b/c", tmp_path / "back")
    with pytest.raises(UserError, match=r"holds no model of Equipoise \(there is no such folder\)"):
        pull_model("./nowhere", tmp_path / "back")
    with pytest.raises(UserError, match="is there already"):
        push_model(finished_run, str(finished_run))
    with pytest.raises(UserError, match="no model in"):
        push_model(tmp_path, "./there")


def test_the_hub_out_of_reach_is_one_sentence(finished_run: Path, tmp_path: Path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: push and pull are NOT tested")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"hf-hub:a/b cannot be uploaded to the hub .*hf auth login") as caught:
        push_model(finished_run, "a/b")
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="hf-hub:a/b cannot be fetched from the hub"):
        pull_model("a/b", tmp_path / "back")
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"needs huggingface_hub; pip install 'equipoise\[hub\]'"):
        pull_model("a/b", tmp_path / "back")
