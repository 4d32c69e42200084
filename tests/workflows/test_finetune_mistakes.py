"""Fine-tuning that cannot begin: one sentence each, and nothing is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from finetune_runs import SHIFTED

from equipoise.cli import main


def said(capsys: pytest.CaptureFixture[str], *words: object, sets: tuple[str, ...] = ()) -> str:
    """What the command says to a mistake."""
    sets = (*SHIFTED, *sets)
    assert main(["finetune", *map(str, words), *(f"--set={text}" for text in sets)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("equipoise: ")
    assert err.count("\n") == 1
    return err


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_a_folder_without_a_model(capsys, tmp_path, out):
    assert "no model in" in said(capsys, tmp_path, "demo", "--out", out)
    assert "no model in nowhere (there is no such folder)" in said(capsys, "nowhere", "demo", "--out", out)
    assert not out.exists()


def test_a_file_that_is_no_checkpoint(capsys, tmp_path, out):
    (tmp_path / "notes.pt").write_text("no weights")
    assert "notes.pt" in said(capsys, tmp_path / "notes.pt", "demo", "--out", out)
    assert not out.exists()


def test_data_that_nobody_knows(capsys, finished_run, out):
    assert 'there is no recipe "flicker8k"' in said(capsys, finished_run, "flicker8k", "--out", out)
    assert "data.toml: there is no such file" in said(capsys, finished_run, "data.toml", "--out", out)
    assert not out.exists()


def test_a_method_that_nobody_knows(capsys, finished_run, out):
    assert "did you mean m3mix?" in said(capsys, finished_run, "demo", "--method", "m3-mix", "--out", out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("space.dim=8", "space is not that of"),
        ("space.name=euclidean", "space is not that of"),
        ("readout.name=code_book", "readout is not that of"),
        ("preprocess.size=64", "preprocess.size is not that of"),
        ("tokens.context=32", "tokens is not that of"),
        ("image.width=32", "the run's model is not that of"),
        ("finetuning.tau=0.001", "finetuning.tau = 0.001 is a scale of 1000, above the model's temperature.max_scale"),
        ("finetuning.taw=1", 'unknown key "finetuning.taw"; did you mean "tau"?'),
        ("training.best=recall", 'training.best = "recall" is not a metric of the validation data'),
        ('lora.layers=["query"]', "is the end of no linear map's name"),
        ("training.trains=adapters", "trains must be one of all, readouts, image, text, added"),
        ("training.probe.share=1.0", "share must be in [0, 1), not 1.0"),
    ],
)
def test_settings_that_do_not_suit_the_model(capsys, finished_run, out, setting, sentence):
    more = ("lora.rank=2",) if setting.startswith("lora") else ()
    assert sentence in said(capsys, finished_run, "demo", "--out", out, sets=(setting, *more))
    assert not (out / "config.toml").exists()
    assert not (out / "start").exists()


def test_nothing_added_to_train(capsys, finished_run, out):
    sets = ("training.trains=added",)
    assert "the model has no such parameters" in said(capsys, finished_run, "demo", "--out", out, sets=sets)
    assert not (out / "config.toml").exists()


def test_a_folder_that_holds_a_run(capsys, finished_run):
    assert "already holds a run" in said(capsys, finished_run, "demo", "--out", finished_run)
    words = (finished_run, "demo", "--method", "zero-shot", "--out", finished_run)
    assert "already holds a run" in said(capsys, *words)


def test_a_run_to_be_resumed_without_its_name(capsys, finished_run):
    assert "say which with --out FOLDER" in said(capsys, finished_run, "demo", "--resume")


def test_a_run_without_its_start(capsys, finished_run):
    words = (finished_run, "demo", "--out", finished_run, "--resume")
    assert "start is missing, the model that this run started from" in said(capsys, *words)
