"""A run resumes from the very checkpoint that was saved, or says in one sentence what is wrong with it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_run import SmallRun, sent, small_run
from torch import Tensor

from equipoise.io.digests import DIGESTS, renew_digest, verifying
from equipoise.models.folder import step_folders
from equipoise.training.checkpoint.checkpoints import WHOLE_FILES, Checkpoints
from equipoise.training.distributed.ranks import Ranks
from equipoise.types import UserError

KIND = "optimiser/exp_avg/image_readout.projection"
Tensors = dict[str, Tensor]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with checkpoints of steps 3 and 5 of 8; not to be changed."""
    run = small_run(tmp_path_factory.mktemp("stopped") / "run")
    assert run.go({5: sent(15)}).step == 5
    return run.folder


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> SmallRun:
    """A copy of it that may be tampered with."""
    shutil.copytree(stopped, tmp_path / "run")
    return small_run(tmp_path / "run")


def last(run: SmallRun) -> Path:
    return step_folders(run.folder)[-1]


def refusal(run: SmallRun) -> str:
    with pytest.raises(UserError) as caught:
        run.go(resume=True)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_tensors(run: SmallRun, name: str, change: Callable[[Tensors], object]) -> None:
    """Other tensors in a file of the newest checkpoint, its digest renewed as if they had been saved so."""
    tensors = load_file(last(run) / name)
    change(tensors)
    save_file(tensors, last(run) / name)
    renew_digest(last(run), name)


def with_progress(run: SmallRun, **values: Any) -> None:
    path = last(run) / "training.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    renew_digest(last(run), path.name)


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_one_flipped_bit_is_told(run, name):
    path = last(run) / name
    data = bytearray(path.read_bytes())
    data[-len(data) // 3] ^= 1
    path.write_bytes(data)
    assert str(path) in refusal(run)


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "training.json"])
def test_a_part_of_another_checkpoint_is_told(run, name):
    earlier, newest = step_folders(run.folder)
    shutil.copy(earlier / name, newest / name)
    sentence = refusal(run)
    assert f"cannot continue from {newest}" in sentence
    assert str(newest / name) in sentence


@pytest.mark.parametrize("name", ["training.safetensors", "training.json"])
def test_parts_of_two_steps_are_told_without_digests_too(run, name):
    earlier, newest = step_folders(run.folder)
    shutil.copy(earlier / name, newest / name)
    with verifying(False):
        assert f"{name} of step 3" in refusal(run)


def test_a_checkpoint_under_the_name_of_another_step_is_told(run):
    last(run).rename(last(run).with_name("step-00000999"))
    sentence = refusal(run)
    assert "the folder of step 999" in sentence
    assert "training.json of step 5" in sentence


def test_a_file_that_was_not_saved_is_told(run):
    shutil.copy(last(run) / "training.safetensors", last(run) / "more.safetensors")
    assert str(last(run) / "more.safetensors") in refusal(run)


def test_a_checkpoint_of_before_has_no_digests_and_goes_on(run):
    (last(run) / DIGESTS).unlink()
    with pytest.warns(UserWarning, match=rf"{last(run)} has no {DIGESTS}"):
        assert run.go(resume=True).step == 8


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("step", value) for value in ("five", -1, 1.5, None, True, [5], 10**30)),
        *(("samples", value) for value in ("many", -1)),
        *((key, "text") for key in ("records", "seconds", "best", "captions_cut", "evaluated", "validation")),
        *(("seconds", value) for value in (math.nan, -1.0)),
        *(("validation", value) for value in ([1.0], {"mean_recall": "high"})),
        ("best", math.inf),
        *(("processes", value) for value in (0, -1, "two", 10**9)),
    ],
)
def test_values_of_training_json_are_named(run, key, value):
    with_progress(run, **{key: value})
    sentence = refusal(run)
    assert f"cannot continue from {last(run)}" in sentence
    assert f'training.json: "{key}" must be' in sentence


def test_a_step_that_is_not_the_folders_is_told(run):
    with_progress(run, step=999)
    assert "training.json of step 999" in refusal(run)


def test_more_processes_than_left_their_state_are_told(run):
    with_progress(run, processes=2)
    assert "2 processes" in refusal(run)


@pytest.mark.parametrize("text", ["[]", "3", "null", '{"stepp": 5}', "[" * 100_000, ""])
def test_another_training_json_is_told(run, text):
    (last(run) / "training.json").write_text(text)
    renew_digest(last(run), "training.json")
    assert "training.json" in refusal(run)


def renamed(tensors: Tensors) -> None:
    tensors[KIND.replace("exp_avg", "momentum")] = tensors.pop(KIND)


def without_moments(tensors: Tensors) -> None:
    for name in [name for name in tensors if name.startswith("optimiser/")]:
        del tensors[name]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.update({KIND: torch.zeros(3)}), KIND),
        (lambda t: t.update({KIND: torch.zeros(())}), KIND),
        (lambda t: t.update({KIND: t[KIND].half()}), KIND),
        (lambda t: t.update({KIND: t[KIND].long()}), KIND),
        (lambda t: t.update({KIND.replace("exp_avg", "step"): torch.zeros(2)}), KIND.replace("exp_avg", "step")),
        (lambda t: t.pop(KIND), f"{KIND} is missing"),
        (renamed, "optimiser/momentum/image_readout.projection"),
        (lambda t: t.update({"optimiser/exp_avg/nothing": torch.zeros(1)}), "optimiser/exp_avg/nothing"),
        (without_moments, "training.safetensors of step 0"),
        (lambda t: t[KIND].__setitem__((0, 0), math.nan), KIND),
        (lambda t: t["weights/logit_scale"].fill_(math.inf), "logit_scale"),
        (lambda t: t.update({"weights/logit_scale": t["weights/logit_scale"].half()}), "weights/logit_scale"),
    ],
)
def test_a_state_of_training_that_was_not_saved_so_is_told(run, change, words):
    with_tensors(run, "training.safetensors", change)
    sentence = refusal(run)
    assert f"cannot continue from {last(run)}" in sentence
    assert words in sentence


def test_weights_of_another_type_are_not_converted(run):
    with_tensors(run, "model.safetensors", lambda t: t.update({name: x.half() for name, x in t.items()}))
    assert "float16 there" in refusal(run)


@pytest.mark.parametrize(
    "line", [b"3", b'"text"', b"[1]", b"null", b'{"step": "one"}', b'{"loss": 1.0}', b"\xff\xfe", b"[" * 99_999]
)
def test_a_metrics_file_that_no_run_wrote_is_told(run, line):
    path = run.folder / "metrics.jsonl"
    first, *more = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, line, b"\n", *more]))
    before = path.read_bytes()
    assert f"{path}: line 2" in refusal(run)
    assert path.read_bytes() == before


def test_the_last_good_checkpoint_is_one_that_a_step_succeeded_from(tmp_path):
    settings = ("training.learning_rate=1e30", "training.clip_norm=0", "training.warmup_steps=0")
    run = small_run(tmp_path / "run", *settings, "training.checkpoint_every=1", "training.ema=0")
    with pytest.raises(UserError) as caught:
        run.go()
    sentence = str(caught.value)
    assert "last good" not in sentence  # that of the first step is there, but gives no finite loss
    assert "none of the checkpoints" in sentence


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors"])
def test_a_checkpoint_with_nan_is_passed_over(run, name):
    good, newest = step_folders(run.folder)
    checkpoints = Checkpoints(run.folder, "", run.loaded.run.training, Ranks())
    assert checkpoints.last() == f"the last good checkpoint is {newest}"
    assert checkpoints.last(before=5) == f"the last good checkpoint is {good}"
    with_tensors(run, name, lambda tensors: max(tensors.values(), key=Tensor.is_floating_point).fill_(math.nan))
    assert checkpoints.last() == f"the last good checkpoint is {good}"
    shutil.rmtree(good)
    assert "none of the checkpoints" in checkpoints.last()


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    run = small_run(tmp_path / "run", "training.checkpoint_every=3")

    def overflow(_: Tensor) -> None:
        run.model.text_encoder.words.weight.data[3, 2] = math.inf

    def spoil() -> None:  # after the last forward pass before the checkpoint
        run.model.logit_scale.register_hook(overflow)

    with pytest.raises(UserError) as caught:
        run.go({6: spoil})
    assert "not saved" in str(caught.value)
    assert "text_encoder.words.weight" in str(caught.value)
    assert f"the last good checkpoint is {run.folder / 'checkpoints' / 'step-00000003'}" in str(caught.value)
    assert [path.name for path in step_folders(run.folder)] == ["step-00000003"]
