"""A run that is stopped and resumed is the run that was left alone, bit for bit."""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from safetensors.torch import load_file
from small_run import FULL, ROOMY, SmallRun, sent, set_disk, small_run, without_clock

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.folder import model_folder, step_folders, step_number
from equipoise.objectives import M3Mix
from equipoise.training.logging.metrics import read_metrics
from equipoise.training.signals import SIGNALS, SignalHandler
from equipoise.training.step import Step
from equipoise.types import StepInfo, UserError

LAST = "checkpoints/step-00000008"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    run = small_run(tmp_path_factory.mktemp("undisturbed") / "run")
    assert run.go().step == 8
    return run


def assert_same(run: SmallRun, other: SmallRun) -> None:
    """Every logged number and every tensor that a run leaves."""
    assert without_clock(read_metrics(run.folder / "metrics.jsonl")) == without_clock(
        read_metrics(other.folder / "metrics.jsonl")
    )
    for file in (f"{LAST}/model.safetensors", f"{LAST}/training.safetensors", "checkpoints/best/model.safetensors"):
        one, two = load_file(run.folder / file), load_file(other.folder / file)
        assert one.keys() == two.keys()
        assert [name for name in one if not torch.equal(one[name], two[name])] == []
    for (name, mine), theirs in zip(run.model.state_dict().items(), other.model.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("step", [4, *(pytest.param(step, marks=pytest.mark.slow) for step in (1, 3, 7, 8))])
def test_stopped_at_a_step_and_resumed(undisturbed, tmp_path, step, number):
    run = small_run(tmp_path / "run")
    stopped = run.go({step: sent(number)})
    assert (stopped.step, stopped.signal) == (step, number)
    outcome = run.go(resume=True)
    assert (outcome.step, outcome.signal) == (8, 0)
    assert without_clock(outcome.records) == without_clock(read_metrics(run.folder / "metrics.jsonl"))
    assert_same(run, undisturbed)


def test_a_run_in_parts_is_the_run_in_one(undisturbed, tmp_path):
    """Also where a part ends with a step that is saved anyway (4) and beyond the last (20)."""
    run = small_run(tmp_path / "run")
    for until, resume in ((3, False), (4, True), (4, True), (20, True)):
        outcome = run.go(resume=resume, until=until)
        assert (outcome.step, outcome.signal) == (min(until, 8), 0)
        assert step_number(step_folders(run.folder)[-1]) == min(until, 8)
    assert_same(run, undisturbed)


@pytest.mark.parametrize("step", [1, 2, 4, 5])
def test_stopped_while_waiting_for_data(undisturbed, tmp_path, step):
    run = small_run(tmp_path / "run")
    assert run.go(in_data={step: sent(signal.SIGTERM)}).step == step - 1
    assert len(step_folders(run.folder)) == (0 if step == 1 else 1 if step < 5 else 2)
    run.go(resume=True)
    assert_same(run, undisturbed)


def test_an_evaluation_is_given_up_and_made_up_for(undisturbed, tmp_path):
    run = small_run(tmp_path / "run")
    assert run.go(in_evaluation=sent(signal.SIGTERM)).step == 4
    assert not any("validation/mean_recall" in record for record in read_metrics(run.folder / "metrics.jsonl"))
    assert run.go(in_evaluation=sent(signal.SIGTERM), resume=True).step == 4  # again, in the evaluation it begins with
    run.go(resume=True)
    assert run.evaluations == 2
    assert_same(run, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_processes_that_load_data_change_nothing(undisturbed, tmp_path, workers):
    run = small_run(tmp_path / "run", f"training.workers={workers}")
    run.go({3: sent(signal.SIGTERM)})
    run.go(in_data={6: sent(signal.SIGTERM)}, resume=True)
    run.go(resume=True)
    assert_same(run, undisturbed)


def test_a_run_without_an_average_resumes_too(tmp_path):
    alone, run = small_run(tmp_path / "alone", "training.ema=0"), small_run(tmp_path / "run", "training.ema=0")
    alone.go()
    run.go({5: sent(signal.SIGTERM)})
    run.go(resume=True)
    assert_same(run, alone)


def test_a_learned_bias_is_trained_logged_saved_and_resumed(tmp_path):
    settings = ("objective.form.name=sigmoid", "objective.form.learned=true", "objective.form.bias=-4")
    alone, run = small_run(tmp_path / "alone", *settings), small_run(tmp_path / "run", *settings)
    alone.go()
    run.go({5: sent(signal.SIGTERM)})
    run.go(resume=True)
    assert_same(run, alone)
    course = [record["bias"] for record in read_metrics(run.folder / "metrics.jsonl") if "bias" in record]
    assert len(course) == 8
    assert len(set(course)) == 8
    groups = Step(run.model, run.loaded.run.objective, run.loaded.run.training, torch.device("cpu")).optimizer
    decay = {id(p): group["weight_decay"] for group in groups.param_groups for p in group["params"]}
    assert decay[id(run.model.logit_bias)] == 0


@pytest.mark.slow
def test_mixups_draw_the_same_after_an_interruption(tmp_path):
    """Shares, schedules and the temperature of m² depend on the step alone; five steps are an epoch here."""
    settings = ("objective.name=m3mix", "objective.m2_weight=0.3", "objective.m2_alpha=[2.0, 0.1]")
    alone, run = small_run(tmp_path / "alone", *settings), small_run(tmp_path / "run", *settings)
    alone.go()
    run.go({5: sent(signal.SIGTERM)})
    run.go(resume=True)
    assert_same(run, alone)
    records = [record for record in read_metrics(run.folder / "metrics.jsonl") if "loss" in record]
    assert [record["mix/weight"] for record in records] == [1.0] * 5 + [0.5] * 3
    objective, seed = run.loaded.run.objective, run.loaded.run.seed
    assert isinstance(objective, M3Mix)
    for step, record in enumerate(records, start=1):
        moment = StepInfo(seed, step, 8, 5)
        assert record["mix/share_m2"] == objective.share(moment, "m2")
        assert 0 <= record["batch/texts_above"] <= 1
    assert len({record["mix/logit_scale"] for record in records}) == 8


def test_a_code_book_is_trained_logged_saved_and_resumed(tmp_path):
    settings = ("readout.name=code_book", "readout.codes=24", "readout.scale=1.0")
    alone, run = small_run(tmp_path / "alone", *settings), small_run(tmp_path / "run", *settings)
    alone.go()
    run.go({5: sent(signal.SIGTERM)})
    run.go(resume=True)
    assert_same(run, alone)
    records = [record for record in read_metrics(run.folder / "metrics.jsonl") if "loss" in record]
    names = {"active_image", "active_text", "perplexity_image", "perplexity_text", "dead", "overlap"}
    assert all({f"codes/{name}" for name in names} <= record.keys() for record in records)
    assert all(1 <= record["codes/active_text"] <= 24 for record in records)


def test_what_was_logged_after_the_checkpoint_is_logged_once(undisturbed, tmp_path):
    run = small_run(tmp_path / "run")
    run.go({5: sent(signal.SIGTERM)})
    with (run.folder / "metrics.jsonl").open(
        "a"
    ) as file:  # as if it had gone on and been killed in the middle of a line
        file.write('{"step": 6, "loss": 9.0}\n{"step": 7, "loss": 9.0}\n{"step": 8, "lo')
    run.go(resume=True)
    assert_same(run, undisturbed)


def test_lost_records_are_told(tmp_path):
    run = small_run(tmp_path / "run")
    run.go({5: sent(signal.SIGTERM)})
    (run.folder / "metrics.jsonl").unlink()
    with pytest.warns(UserWarning, match="0 whole records of the 6"):
        assert [record["step"] for record in run.go(resume=True).records] == [6, 7, 8, 8]


@pytest.mark.slow
def test_tensorboard_shows_every_step_once(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = small_run(tmp_path / "run")
    run.go({6: sent(signal.SIGTERM)})
    for leftover in step_folders(run.folder)[1:]:
        leftover.rename(leftover.with_name("moved away"))  # so that steps 4 to 6 come again
    time.sleep(1.0)  # files of events are read in the order of the second they were begun in
    run.go(resume=True)
    events = accumulator.EventAccumulator(str(run.folder / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(1, 9))


def test_the_tokeniser_is_read_and_not_learned_again(undisturbed, tmp_path, monkeypatch):
    from equipoise.workflows import train_run

    run = small_run(tmp_path / "run")
    run.go({5: sent(signal.SIGTERM)})
    monkeypatch.setattr(CaptionTokenizer, "train", None)
    model, outcome = train_run(run.loaded, run.folder)
    assert outcome.step == 8
    assert model.tokens(["a red fish"])[0].tolist() == undisturbed.model.tokens(["a red fish"])[0].tolist()
    losses = [record["loss"] for record in read_metrics(undisturbed.folder / "metrics.jsonl") if "loss" in record]
    assert [record["loss"] for record in outcome.records if "loss" in record] == losses


def test_steps_may_be_raised(tmp_path):
    small_run(tmp_path / "run").go()
    outcome = small_run(tmp_path / "run", "training.steps=10").go(resume=True)
    assert outcome.step == 10
    assert [record["step"] for record in outcome.records if "loss" in record] == list(range(1, 11))


def test_the_last_few_and_the_best_are_kept(undisturbed):
    kept = sorted(path.name for path in (undisturbed.folder / "checkpoints").iterdir())
    assert kept == ["best", "step-00000006", "step-00000008"]
    assert model_folder(undisturbed.folder).name == "best"


def test_without_a_best_the_newest_is_the_model(tmp_path):
    run = small_run(tmp_path / "run", "training.checkpoint_every=1", "training.keep_last=3")
    run.go({3: sent(signal.SIGTERM)})
    assert [step_number(path) for path in step_folders(run.folder)] == [1, 2, 3]
    assert model_folder(run.folder).name == "step-00000003"


@pytest.mark.parametrize(("minutes", "steps"), [(1e-9, list(range(1, 9))), (0, [8]), (60, [8])])
def test_checkpoints_by_the_clock(tmp_path, minutes, steps):
    settings = (f"training.checkpoint_minutes={minutes}", "training.checkpoint_every=0", "training.keep_last=100")
    run = small_run(tmp_path / "run", *settings)
    run.go()
    assert [step_number(path) for path in step_folders(run.folder)] == steps


def test_seconds_add_up(tmp_path):
    run = small_run(tmp_path / "run")
    first = run.go({6: sent(signal.SIGTERM)})
    whole = run.go(resume=True)
    assert whole.seconds > first.seconds > 0
    seconds = [record["seconds"] for record in whole.records if "seconds" in record]
    assert seconds == sorted(seconds)


@contextmanager
def limited_disk() -> Iterator[None]:
    """Ends within the test: the log of pytest itself is a file that may not grow."""
    try:
        yield
    finally:
        set_disk(ROOMY)


@limited_disk()
def test_a_full_disk_costs_the_new_checkpoint_only(undisturbed, tmp_path):
    run = small_run(tmp_path / "run")
    run.go({3: sent(signal.SIGTERM)})
    set_disk(FULL)
    with (
        pytest.warns(UserWarning, match="cannot write .*best: .*; training goes on"),
        pytest.raises(UserError, match=r"cannot write .*step-00000006: .*the last good checkpoint is .*-00000003"),
    ):
        run.go(resume=True)
    assert [path.name for path in (run.folder / "checkpoints").iterdir()] == ["step-00000003"]
    set_disk(ROOMY)
    run.go(resume=True)
    assert_same(run, undisturbed)


@limited_disk()
def test_one_failure_is_forgiven(tmp_path):
    run = small_run(tmp_path / "run")
    with pytest.warns(UserWarning, match="cannot write .*best: .*; training goes on"):
        outcome = run.go({4: lambda: set_disk(FULL), 5: lambda: set_disk(ROOMY)})
    assert outcome.step == 8
    assert sorted(path.name for path in (run.folder / "checkpoints").iterdir()) == [
        "best",
        "step-00000006",
        "step-00000008",
    ]


@limited_disk()
@pytest.mark.parametrize("room", [FULL, 10_000])  # for the tokenizer but not for the weights; for neither
def test_a_checkpoint_that_cannot_be_written_at_the_end_is_told(tmp_path, room):
    run = small_run(tmp_path / "run", "training.evaluate_every=0")
    path = run.folder / "checkpoints" / "step-00000002"
    with pytest.raises(UserError, match=rf"cannot write {path}: .*no checkpoint had been written yet"):
        run.go({2: lambda: (set_disk(room), signal.raise_signal(signal.SIGTERM))})


def test_changed_data_is_noticed(tmp_path):
    run = small_run(tmp_path / "run")
    run.go({5: sent(signal.SIGTERM)})
    with pytest.raises(UserError, match="has 48 samples, but had 40"):
        small_run(tmp_path / "run", "data.train_size=48").go(resume=True)


@pytest.mark.parametrize("file", ["training.json", "training.safetensors", "model.safetensors"])
def test_a_damaged_checkpoint_is_named(tmp_path, file):
    run = small_run(tmp_path / "run")
    run.go({5: sent(signal.SIGTERM)})
    broken = step_folders(run.folder)[-1] / file
    broken.write_bytes(broken.read_bytes()[:100])
    with pytest.raises(UserError, match=r"cannot continue from .*step-00000005: .*move it away"):
        run.go(resume=True)
    broken.parent.rename(run.folder / "damaged")
    assert run.go(resume=True).step == 8


def test_a_new_run_does_not_mix_with_old_checkpoints(undisturbed):
    with pytest.raises(UserError, match="already holds checkpoints"):
        small_run(undisturbed.folder).go()  # not the shared one, whose model others compare theirs with


def test_a_loss_that_is_not_finite_names_the_last_checkpoint(tmp_path):
    run = small_run(
        tmp_path / "run", "training.learning_rate=1e30", "training.clip_norm=0", "training.checkpoint_every=1"
    )
    with pytest.raises(UserError, match=r"became nan|became inf"):
        run.go()


def test_position_is_plain_json(undisturbed):
    position = json.loads((undisturbed.folder / LAST / "training.json").read_text())
    assert (position["step"], position["samples"], position["evaluated"]) == (8, 40, 8)
    assert math.isfinite(position["best"])


def test_signals_are_answered_as_before_afterwards(tmp_path):
    before = [signal.getsignal(number) for number in SIGNALS]
    with SignalHandler() as interrupt:
        signal.raise_signal(signal.SIGTERM)
        assert interrupt
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL  # so that the second one ends the process
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_thread_trains_without_handlers(tmp_path):
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(small_run(tmp_path / "run").go()))
    thread.start()
    thread.join()
    assert outcomes[0].step == 8


@pytest.mark.slow
def test_a_queue_and_views_go_on_as_they_were(tmp_path):
    settings = ("objective.name=declip", "objective.queue=40", "objective.width=16", "objective.bottleneck=8")
    undisturbed, run = (small_run(tmp_path / name / "run", *settings) for name in ("undisturbed", "stopped"))
    undisturbed.go()
    assert run.go({3: sent(signal.SIGTERM)}).step == 3
    run.go(resume=True)
    assert_same(run, undisturbed)
    stored = load_file(run.folder / LAST / "training.safetensors")
    assert int(stored["memory/heads.nearest.filled"]) == 40
    assert torch.equal(stored["memory/heads.nearest.queue"], run.model.heads["nearest"].queue)
