"""A model made better on other data: an ordinary run with a start, a comparison and a way out."""

from __future__ import annotations

import json
import shutil
import signal

import pytest
from finetune_runs import SHIFTED, same, stop, tuned, weights

from equipoise.cli import main
from equipoise.config import load_stored
from equipoise.finetuning.comparison import DidNotHelp
from equipoise.training.logging.metrics import read_metrics
from equipoise.types import UserError
from equipoise.workflows import finetune, load, resume_folder


@pytest.mark.slow
def test_a_stopped_command_goes_on_without_the_original(tmp_path, finished_run, monkeypatch):
    start, out = tmp_path / "start", tmp_path / "out"
    shutil.copytree(finished_run, start)
    words = (start, "demo", "wise-ft", SHIFTED, out)
    with monkeypatch.context() as patch:
        stop(patch, 5)
        assert finetune(*words) == 128 + signal.SIGTERM
    shutil.rmtree(start)
    assert not (out / "model.safetensors").exists()
    assert tuned(start, out, "wise-ft", resume=True)["start"] == str(start)
    assert load(out).space == load(finished_run).space
    shutil.rmtree(out / "start")
    with pytest.raises(UserError, match=r"start is missing, the model that this run started from"):
        finetune(*words, resume=True)
    (out / "report.html").unlink()
    with pytest.raises(UserError, match=r"start is missing, the model that this run started from"):
        resume_folder(out, (), command="")


@pytest.mark.slow
def test_what_a_run_leaves(tmp_path, finished_run):
    out = tmp_path / "tuned"
    told = tuned(finished_run, out, "m3mix", "training.steps=30", "training.evaluate_every=15")
    assert told["is_better"]
    run = load_stored(out / "config.toml").run
    assert (run.finetuning.start, run.finetuning.method) == (str(finished_run), "m3mix")
    assert (run.data.shift, run.name, run.temperature.learnable) == ("rotation", "m3mix", False)
    assert same(weights(out / "start"), weights(finished_run))
    assert "heads.m2_scale.log_scale" in weights(out)
    assert load(out).logit_scale.item() == load(finished_run).logit_scale.item()
    assert told["shares"] == [number / 10 for number in range(11)]
    assert told["scores"][0] == told["before"] == told["numbers"]["validation"]["start"]["mean_recall"]
    assert told["scores"][10] == told["numbers"]["validation"]["tuned"]["mean_recall"]
    assert told["after"] == max(told["scores"]) == told["numbers"]["validation"]["chosen"]["mean_recall"]
    assert set(told["numbers"]) == {"validation", "test", "test, what the start model was trained on"}
    kept = json.loads((out / "metrics.json").read_text())
    assert kept["retrieval/mean_recall"] == told["numbers"]["test"]["chosen"]["mean_recall"]
    assert kept["finetuning/share"] == told["chosen"]
    report = (out / "report.html").read_text(encoding="utf-8")
    title = f"<h1>{finished_run.name}, fine-tuned by m3mix</h1>"
    order = (title, "It helped", "before ", "<h2>Before and after</h2>", "<h2>What it finds</h2>")
    assert [report.index(words) for words in order] == sorted(report.index(words) for words in order)
    assert 'aria-label="Curve: Between start and end"' in report
    assert "wortsman2022robust" in report
    assert read_metrics(out / "metrics.jsonl")[0]["step"] == 0
    assert finetune(finished_run, "demo", "m3mix", (*SHIFTED, "training.steps=30", "training.evaluate_every=15"),
                    out, resume=True) == 0  # fmt: skip


@pytest.mark.slow
def test_a_run_that_does_harm_is_refused_and_leaves_the_start(tmp_path, finished_run):
    # nothing is better than finding one picture among one, and weights after such steps are chance
    harm = (*SHIFTED, "training.learning_rate=30", "training.clip_norm=0", "finetuning.shares=[0.9, 1.0]")
    harm = (*harm, "data.validation_size=1")
    said = (
        r"^fine-tuning did not help: mean recall .* at the start and .* at the best of 2 places .* is the start model"
    )
    with pytest.raises(DidNotHelp, match=said) as refused:
        finetune(finished_run, "demo", "wise-ft", harm, tmp_path)
    assert refused.value.status == 3  # no mistake of the user's
    assert same(weights(tmp_path), weights(finished_run))
    told = json.loads((tmp_path / "tuning.json").read_text())
    assert (told["is_better"], told["chosen"]) == (False, 0.0)
    assert told["after"] <= told["before"] == 1.0
    words = ["finetune", str(finished_run), "demo", "--method", "wise-ft", "--out", str(tmp_path), "--resume"]
    assert main([*words, *(word for setting in harm for word in ("--set", setting))]) == 3  # also when asked again


def test_zero_shot_measures_and_trains_nothing(tmp_path, finished_run):
    assert finetune(finished_run, "demo", "zero-shot", SHIFTED, tmp_path) == 0
    told = json.loads((tmp_path / "tuning.json").read_text())
    assert {data: list(models) for data, models in told["numbers"].items()} == {
        "validation": ["start"], "test": ["start"], "test, what the start model was trained on": ["start"],
    }  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["tuning.json"]
