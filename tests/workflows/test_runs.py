from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from equipoise.config import load_run, load_stored
from equipoise.data.scenes import Scenes
from equipoise.evaluation import EVALUATIONS
from equipoise.models.folder import step_folders
from equipoise.training.logging.metrics import read_metrics
from equipoise.types import UserError
from equipoise.workflows import evaluate_folder, load, resume_folder, run_recipe, train_run

TIMED = ("seconds", "pairs_per_second")


def trained(folder: Path, *settings: str) -> tuple[list[dict[str, float]], dict[str, torch.Tensor]]:
    """What a run measured, clocks left out, and the weights it ended with."""
    model, outcome = train_run(load_run("demo", settings), folder)
    records = [{key: value for key, value in record.items() if key not in TIMED} for record in outcome.records]
    assert [record["step"] for record in read_metrics(folder / "metrics.jsonl")] == [r["step"] for r in records]
    return records, model.state_dict()


def test_the_same_seed_gives_the_same_run_bit_for_bit(tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    settings = (*tiny_settings, "training.steps=6", "training.evaluate_every=2", "image.patch_dropout=0.25")
    records, weights = trained(tmp_path / "a", *settings)
    torch.rand(5)  # what happened before in this process does not matter
    again, same_weights = trained(tmp_path / "b", *settings)
    assert records == again
    assert all(torch.equal(weights[name], same_weights[name]) for name in weights)
    files = [step_folders(tmp_path / run)[-1] / "model.safetensors" for run in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()

    others, other_weights = trained(tmp_path / "c", *settings, "seed=1")
    assert [r["loss"] for r in others if "loss" in r] != [r["loss"] for r in records if "loss" in r]
    assert not torch.equal(weights["image_encoder.patches.weight"], other_weights["image_encoder.patches.weight"])


def test_a_finished_run_leaves_model_results_and_report(finished_run: Path) -> None:
    names = {path.name for path in finished_run.iterdir()}
    assert names == {
        "README.md", "checkpoints", "config.toml", "digests.json", "figures.json", "metrics.json", "metrics.jsonl",
        "model.safetensors", "preprocess.json", "report.html", "results", "table.md", "tensorboard", "tokenizer.json",
    }  # fmt: skip
    metrics = json.loads((finished_run / "metrics.json").read_text())
    source = load_stored(finished_run / "config.toml").run.data.build("test")
    applicable = {name for name, evaluation in EVALUATIONS.items() if evaluation.applies(source)}
    applicable -= {"codes", "captioning", "two_stage"}  # of models with other parts than this one's
    assert {path.stem for path in (finished_run / "results").iterdir()} == applicable
    for protocol in applicable:
        written = json.loads((finished_run / "results" / f"{protocol}.json").read_text())
        assert written["dataset"] == "scenes"
        for name, value in written["equipoise"]["chance"].items():
            assert value >= 0
            assert metrics[f"{protocol}/{name}"] == written["metrics"][name]
    report = (finished_run / "report.html").read_text(encoding="utf-8")
    assert "equipoise demo" in report
    assert "0 were longer than 64 tokens" in report
    last = read_metrics(finished_run / "metrics.jsonl")[-2]  # the evaluation comes after it
    assert metrics["logit_scale/final"] == last["logit_scale"]
    assert metrics["logit_scale/clamped_share"] == 0
    assert f"It ended at {last['logit_scale']:.3g}" in report


def test_every_model_of_a_run_loads_and_says_the_same(finished_run: Path) -> None:
    folders = (finished_run, finished_run / "checkpoints" / "best", step_folders(finished_run)[-1])
    points = [load(folder).encode_text(["a red fish", "two stars"]) for folder in folders]
    assert torch.equal(points[0], points[2])  # the run ended where its last checkpoint is
    assert points[1].shape == points[0].shape
    torch.testing.assert_close(load(str(finished_run)).encode_text("a red fish"), points[0][:1])


def test_a_model_is_loaded_onto_a_device(finished_run: Path) -> None:
    assert load(finished_run, "auto").device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(UserError, match="device 'abacus' is not one torch knows"):
        load(finished_run, "abacus")


def test_a_run_that_was_stopped_can_be_loaded(finished_run: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_run / "checkpoints", tmp_path / "checkpoints")
    best = load(finished_run / "checkpoints" / "best")
    assert torch.equal(load(tmp_path).encode_text("a fish"), best.encode_text("a fish"))


def test_weights_that_do_not_fit_the_config_are_refused(finished_run: Path, tmp_path: Path) -> None:
    for name in ("config.toml", "tokenizer.json", "preprocess.json", "model.safetensors"):
        shutil.copy(finished_run / name, tmp_path / name)
    config = tmp_path / "config.toml"
    config.write_text(config.read_text().replace("dim = 16", "dim = 24"))
    with pytest.raises(UserError, match=r"model\.safetensors .*does not fit this model: .*_readout.projection is 16"):
        load(tmp_path)


def test_a_folder_that_holds_a_run_is_left_alone(finished_run: Path, tiny_settings: tuple[str, ...]) -> None:
    before = (finished_run / "metrics.jsonl").stat().st_mtime_ns
    with pytest.raises(
        UserError,
        match=f"{finished_run} already holds a run",
    ):
        run_recipe("demo", tiny_settings, finished_run, "")
    assert (finished_run / "metrics.jsonl").stat().st_mtime_ns == before


@pytest.mark.slow
def test_without_a_folder_runs_are_numbered(
    tmp_path: Path, tiny_settings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for taken in ("mine", "mine-2"):
        (tmp_path / "runs" / taken).mkdir(parents=True)
    assert run_recipe("demo", [*tiny_settings, "training.steps=1", "name=mine"], None, "") == 0
    assert [path.name for path in (tmp_path / "runs").iterdir() if any(path.iterdir())] == ["mine-3"]


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("training.best=shine", 'training.best = "shine" is not a metric of the validation data; choose image'),
        ("training.batch_size=65", "batch_size 65 is larger than the 64 training samples"),
        ("preprocess.size=33", "cannot be cut into patches of 8 px"),
        ("training.device=abacus", "device 'abacus' is not one torch knows"),
        ("training.device=meta", "device 'meta' cannot be used here"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_written(
    tmp_path: Path, tiny_settings: tuple[str, ...], setting: str, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        run_recipe("demo", [*tiny_settings, setting], tmp_path / "run", "")
    assert not (tmp_path / "run").exists()


def test_ctrl_c_after_training_says_where_the_model_is(
    tmp_path: Path,
    tiny_settings: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("equipoise.workflows.save.evaluate_encoded", interrupted)
    folder = tmp_path / "run"
    assert run_recipe("demo", tiny_settings, folder, "") == 130
    sentence = f"Stopped after step 2, before the report; go on with: equipoise train --resume {folder}\n"
    assert capsys.readouterr().out == sentence
    assert load(folder).encode_text("a fish").shape == (1, 16)


def test_evaluating_again_gives_the_same_numbers(finished_run: Path, tmp_path: Path) -> None:
    evaluate_folder(finished_run, None, [], "test", tmp_path, "cpu")
    for name in (path.stem for path in (finished_run / "results").iterdir()):
        first, again = (
            json.loads((folder / "results" / f"{name}.json").read_text()) for folder in (finished_run, tmp_path)
        )
        assert again["metrics"] == pytest.approx(first["metrics"])
        assert again["model"] == str(finished_run)


def test_a_model_is_evaluated_on_other_data(finished_run: Path, tmp_path: Path, tiny_settings: tuple[str, ...]) -> None:
    def measured(out: str, data: str | None = None, settings: tuple[str, ...] = (), split: str = "test") -> dict:
        evaluate_folder(finished_run, data, settings, split, tmp_path / out)
        return json.loads((tmp_path / out / "results" / "matching.json").read_text())["metrics"]

    own = measured("own")
    assert measured("validation", split="validation") != own
    assert measured("shifted", settings=("data.shift=rotation",)) != own
    with pytest.warns(UserWarning, match="but the context is 64; its end is cut off"):  # up to four things to tell
        other = measured("other", "clip-scenes-gpu", ("data.test_size=12",))
    assert (own["image_to_text_queries"], other["image_to_text_queries"]) == (16, 12)


def test_the_stored_config_is_the_whole_run(finished_run: Path, tiny_settings: tuple[str, ...]) -> None:
    assert load_stored(finished_run / "config.toml") == load_run("demo", tiny_settings)
    source = load_stored(finished_run / "config.toml").run.data.build("test")
    assert isinstance(source, Scenes)
    assert len(source) == 16


def test_settings_that_were_edited_since_the_checkpoint_are_told(finished_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    (run / "report.html").unlink()
    config = run / "config.toml"
    config.write_text(re.sub(r"(?m)^batch_size = .*", "batch_size = 8", config.read_text()))
    with pytest.raises(UserError, match=r"step-\d+ holds a run with other settings.*training\.batch_size"):
        resume_folder(run, (), "")


def test_a_finished_run_that_is_trained_on_can_be_loaded_meanwhile(finished_run: Path, tmp_path: Path) -> None:
    """Its settings say more steps as soon as it begins, and the digest of that file with them."""
    run = shutil.copytree(finished_run, tmp_path / "run")
    before = (run / "digests.json").read_bytes()
    train_run(load_stored(run / "config.toml", ["training.steps=3"]), run)
    assert (run / "digests.json").read_bytes() != before
    load(run)
