"""`equipoise sweep`: what is combined, what is chosen, and that failures and kills cost one trial at most."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean

import pytest

from equipoise.cli import main
from equipoise.types import UserError
from equipoise.workflows.sweep.grid import Trial, parse_over, split_values, trials_of
from equipoise.workflows.sweep.results import DONE, FAILED, Result, Results, read_results, read_trial, write_results
from equipoise.workflows.sweep.run import SweepRequest, sweep

NANO = (
    "data.train_size=24", "data.validation_size=12", "data.test_size=8", "preprocess.size=16", "tokens.vocabulary=600",
    "tokens.context=40", "image.name=vit-micro", "image.width=16", "image.heads=2", "image.layers=1", "image.patch=8",
    "text.width=16", "text.heads=2", "text.layers=1", "space.dim=16", "training.batch_size=8", "training.device=cpu",
    "training.steps=4", "training.warmup_steps=0", "training.clip_norm=0", "training.checkpoint_every=1",
)  # fmt: skip
WORDS = [word for setting in NANO for word in ("--set", setting)]
RATES = ["--over", "training.learning_rate=1e-3,1e-2,1e30"]  # the last one diverges


def result(trial: Trial, value: float | None) -> Result:
    status, message = (FAILED, "it failed") if value is None else (DONE, "")
    return Result(dict(trial.values), trial.seed, f"trials/{trial.name}", status, 1.0, value, value, 4, message)


def results(*found: tuple[float | None, ...]) -> Results:
    """The results of one combination each, seed by seed."""
    trials = trials_of({"a": [str(number) for number in range(len(found))]}, range(len(found[0])))
    known = {trial.name: result(trial, found[int(trial.values[0][1])][trial.seed]) for trial in trials}
    return Results("mean_recall", trials, known)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2", ["1", "2"]),
        ("[0.9, 0.98],[0.9,0.999]", ["[0.9, 0.98]", "[0.9,0.999]"]),
        ("'a,b', \"c,[\",d", ["'a,b'", '"c,["', "d"]),
        ("{a=1,b=[2,3]},x", ["{a=1,b=[2,3]}", "x"]),
        ("one", ["one"]),
    ],
)
def test_values_are_divided_by_commas_outside_brackets_and_quotes(text: str, values: list[str]) -> None:
    assert split_values(text) == values


def test_all_are_combined_seed_by_seed() -> None:
    trials = trials_of(parse_over(["a.b=1,2", "c=x,y,z"]), [3, 4])
    assert [trial.seed for trial in trials] == [3] * 6 + [4] * 6
    expected = [(b, c) for b in "12" for c in "xyz"] * 2
    assert [tuple(value for _, value in trial.values) for trial in trials] == expected
    assert trials[0].settings == ["a.b=1", "c=x", "seed=3"]
    assert len({trial.name for trial in trials}) == 12
    grown = trials_of(parse_over(["a.b=0,1,2", "c=x,y,z"]), [3])
    assert trials[0].name in {trial.name for trial in grown}  # a sweep may grow


def test_names_of_folders_are_plain_and_differ() -> None:
    odd = [Trial((("a.b", value),), 0).name for value in ("[1, 2]", "[1; 2]", "../x", "é" * 300)]
    assert len(set(odd)) == 4
    assert all(Path(name).name == name and name.isascii() and len(name) < 200 for name in odd)


@pytest.mark.parametrize(
    ("over", "fault"),
    [
        ([], "nothing to sweep"),
        (["a"], "key=a,b,c"),
        (["a="], "key=a,b,c"),
        (["a=1,,2"], "key=a,b,c"),
        (["a=1,1"], "twice"),
        (["a=1", "a=2"], "given before"),
        (["seed=1,2"], "--seeds"),
    ],
)
def test_what_cannot_be_swept(over: list[str], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        parse_over(over)


@pytest.mark.parametrize("over", ["training.learningrate=1,2", "training.learning_rate=1,abc"])
def test_a_wrong_setting_is_told_by_the_word_it_came_with(over: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^--over {over.partition('=')[0]}"):
        sweep(SweepRequest("demo", [over], tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_too_many_trials_are_refused() -> None:
    with pytest.raises(UserError, match="trials"):
        trials_of({key: [str(number) for number in range(11)] for key in "abc"}, [0])


def test_the_best_has_the_highest_mean_of_all_its_seeds() -> None:
    found = results((0.2, 0.5), (0.4, 0.4), (0.9, None), (None, None))
    assert [values[0][1] for values in found.ranked()] == ["1", "0", "2"]  # 0.4, 0.35; one seed alone is not enough
    assert [values[0][1] for values in results((0.9, None), (None, None)).ranked()] == ["0"]
    assert {trial.name for trial in found.missing()} == {
        trial.name for trial in found.trials if found.by_name[trial.name].validation is None
    }
    assert len(found.failed()) == 3
    assert found.rows()[0][:3] == ("1", "40.0% (40.0%–40.0%)", "2")
    assert "seed 0, 1" in found.rows()[-1][-1]


def test_a_trial_is_judged_by_its_last_evaluation(tmp_path: Path) -> None:
    trial = Trial((("a", "1"),), 0)
    folder = tmp_path / "trials" / trial.name
    folder.mkdir(parents=True)
    records = [{"step": 0, "loss": 3.0}, *({"step": step, "validation/mean_recall": value} for step, value in
                                           ((10, 0.3), (20, 0.7), (30, 0.5)))]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    found = read_trial(trial, folder, tmp_path, "mean_recall", 2.0)
    assert (found.status, found.validation, found.best, found.best_step) == (DONE, 0.5, 0.7, 20)
    assert read_trial(trial, folder, tmp_path, "acc1", 2.0).status == FAILED
    assert read_trial(trial, folder, tmp_path, "mean_recall", 2.0, "oh").message == "oh"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    found = results((0.2, 0.5), (0.4, None))
    for name in found.by_name:
        (tmp_path / "trials" / name).mkdir(parents=True)
    write_results(tmp_path, found, "equipoise sweep")
    again = read_results(tmp_path, "mean_recall", found.trials)
    assert again.by_name == found.by_name
    (tmp_path / "trials.json").write_text(json.dumps({"trials": {found.trials[0].name: {"folder": "trials", "x": 1}}}))
    with pytest.raises(UserError, match=r"trials\.json"):
        read_results(tmp_path, "mean_recall", found.trials)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["demo", "--over", "training.learning_rte=1,2"], "learning_rate"),
        (["demo", "--over", "training.batch_size=8,1"], "batch_size 1"),
        (["demo", "--over", "seed=1,2"], "--seeds"),
        (["demo", "--over", "space.dim=8", "--seeds", "0"], "--seeds is 0"),
        (["demo", "--over", "space.dim=8", "--jobs", "0"], "--jobs is 0"),
        (["demo", "--over", "space.dim=8", "--recipe", "files"], "leave out one of them"),
        (["nothing", "--over", "space.dim=8"], "no recipe"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(words: list[str], fault: str, tmp_path: Path, capsys) -> None:
    assert main(["sweep", *words, "--out", str(tmp_path / "out")]) == 2
    assert fault in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_several_ranks_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["sweep", "demo", "--over", "space.dim=8", "--out", str(tmp_path / "out")]) == 2
    assert "torchrun" in capsys.readouterr().err


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that was killed as hard as can be while it ran, and given again."""
    out = tmp_path_factory.mktemp("sweep") / "out"
    words = [sys.executable, "-m", "equipoise", "sweep", "demo", *RATES, "--seeds", "2", "--out", str(out), *WORDS]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while not (out / "trials.json").exists() and time.monotonic() < until:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(json.loads((out / "trials.json").read_text())["trials"]) < 6
    assert main(words[3:]) == 0
    return out


@pytest.mark.slow
def test_a_killed_sweep_goes_on_and_tells_what_failed(swept: Path) -> None:
    stored = json.loads((swept / "trials.json").read_text())
    trials = list(stored["trials"].values())
    assert sorted(trial["status"] for trial in trials) == [DONE] * 4 + [FAILED] * 2
    assert all("became" in trial["message"] for trial in trials if trial["status"] == FAILED)
    by_rate: dict[str, list[float]] = {}
    for trial in trials:
        if trial["status"] == DONE:
            lines = (swept / trial["folder"] / "metrics.jsonl").read_text().splitlines()
            last = [json.loads(line) for line in lines if "validation/mean_recall" in line][-1]
            assert (last["step"], last["validation/mean_recall"]) == (4, trial["validation"])
            by_rate.setdefault(trial["settings"]["training.learning_rate"], []).append(trial["validation"])
    best = max(by_rate, key=lambda rate: mean(by_rate[rate]))
    assert stored["chosen"] == {"training.learning_rate": best}
    assert (swept / "sweep.png").stat().st_size > 1000
    assert "| 1e30 |" in (swept / "table.md").read_text()


@pytest.mark.slow
def test_a_finished_sweep_trains_nothing_and_other_settings_are_refused(swept: Path, capsys) -> None:
    before = {path: path.stat().st_mtime_ns for path in (swept / "trials").glob("*/model.safetensors")}
    rates = ["--over", "training.learning_rate=1e-3,1e-2"]
    assert main(["sweep", "demo", *rates, "--out", str(swept), *WORDS]) == 0
    said = capsys.readouterr().out
    assert "2 of 2 trials are done already" in said
    assert "equipoise train demo" in said
    assert {path: path.stat().st_mtime_ns for path in (swept / "trials").glob("*/model.safetensors")} == before
    assert main(["sweep", "demo", *rates, "--out", str(swept), *WORDS, "--set", "training.steps=5"]) == 2
    assert "other settings" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweep_of_which_all_trials_fail_says_why(tmp_path: Path, capsys) -> None:
    over = ["--over", "training.learning_rate=1e30"]
    assert main(["sweep", "demo", *over, "--out", str(tmp_path / "out"), *WORDS]) == 2
    assert "all trials failed" in capsys.readouterr().err
