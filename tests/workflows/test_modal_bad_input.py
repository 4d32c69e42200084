"""Bad samples of named modalities, through the command line: a sentence, or a right result; never a traceback."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.cli import main
from equipoise.models.modal_model import ModalModel
from equipoise.workflows import load

WIDTHS = {"text": 100, "audio": 73, "video": 100}
Arrays = dict[str, np.ndarray]


def arrays(count: int = 48, splits: tuple[str, ...] = ("train", "test")) -> Arrays:
    """As mosi_utterances.npz, of noise."""
    chance, made = np.random.default_rng(0), Arrays()
    for split in splits:
        made |= {f"{split}_{name}": chance.normal(size=(count, w)).astype("f4") for name, w in WIDTHS.items()}
        made |= {f"{split}_label": np.arange(count) % 2}
        made |= {f"{split}_id": np.array([f"{split}{row // 4}_{row % 4}" for row in range(count)])}
    return made


def train(folder: Path, given: Arrays, *more: str) -> int:
    np.savez(folder / "samples.npz", **given)
    settings = [f"data.root={folder / 'samples.npz'}", "training.steps=4", "training.batch_size=16", *more]
    words = [word for one in (*settings, "training.evaluate_every=0", "training.loggers=[]") for word in ("--set", one)]
    return main(["train", "gmc-mosi", "--out", str(folder / "run"), *words])


def constant(given: Arrays) -> None:
    given["train_audio"][:] = 3.0


def not_a_number(given: Arrays) -> None:
    given["train_video"][7, 2] = np.nan


def infinite_in_test(given: Arrays) -> None:
    given["test_text"][5, 0] = np.inf


def one_class(given: Arrays) -> None:
    given["train_label"][:] = 1


def no_real_step(given: Arrays) -> None:
    lengths = np.full(48, 2)
    lengths[11] = 0
    given |= {"train_text": given["train_text"][:, None].repeat(2, 1), "train_text_lengths": lengths}


def nobody_has_it(given: Arrays) -> None:
    given["train_has_audio"] = np.zeros(48, bool)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (constant, "'audio' is the same in every sample"),
        (not_a_number, "not finite in row 7"),
        (infinite_in_test, "not finite in row 5"),
        (one_class, "nothing to tell apart"),
        (no_real_step, "row 11 of 'text' has no real step"),
        (nobody_has_it, "no sample has 'audio'"),
    ],
)
def test_bad_samples_end_a_run_before_it_begins(
    spoil: Callable[[Arrays], None], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arrays()
    spoil(given)
    assert train(tmp_path, given) == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert "samples.npz" in errors
    assert "Traceback" not in errors
    assert not list(tmp_path.glob("run/**/*.safetensors"))
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_ids_that_do_not_join_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in WIDTHS:
        own = {key: value for key, value in arrays().items() if key.split("_")[1] in (name, "id", "label")}
        if name == "audio":
            own = {key: np.char.add("x", value) if key.endswith("_id") else value for key, value in own.items()}
        np.savez(tmp_path / f"{name}.npz", **own)
    words = ["train", "gmc-mosi", "--out", str(tmp_path / "run"), "--set", f"data.root={tmp_path}"]
    assert main(words) == 2
    assert "do not join" in capsys.readouterr().err


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("gmc", "modal_pairs", "supervised")]


@pytest.mark.parametrize("objective", ["gmc_m2", *SLOW])
def test_samples_that_have_one_modality_each_are_trained_on_and_told_apart(objective: str, tmp_path: Path) -> None:
    """Row i has modality i mod 3 alone, and what it lacks holds no numbers at all."""
    given = arrays()
    for split in ("train", "test"):
        for place, name in enumerate(WIDTHS):
            has = np.arange(48) % 3 == place
            given[f"{split}_has_{name}"] = has
            given[f"{split}_{name}"][~has] = np.nan
    more = ["training.best=mean_accuracy"] if objective == "modal_pairs" else []
    assert train(tmp_path, given, f"objective.name={objective}", "data.grouped=false", *more) == 0
    found = json.loads((tmp_path / "run" / "results" / "subsets.json").read_text())["metrics"]
    assert all(math.isfinite(value) for value in found.values())
    model = load(tmp_path / "run")
    assert isinstance(model, ModalModel)
    assert all(parameter.isfinite().all() for parameter in model.state_dict().values())
    rows = torch.arange(48) % 3 == 1
    told = model.predict(model.codes({"audio": torch.from_numpy(given["test_audio"])[rows]})).argmax(1).cpu()
    right = (told == torch.from_numpy(given["test_label"])[rows]).float().mean()
    assert found["audio_accuracy"] == pytest.approx(float(right))  # those who have it, and nobody else
