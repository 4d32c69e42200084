"""Pairs judged while a model trains, in parts shorter than an epoch: what is drawn, what is judged, what weighs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from judged_features import WIDTH, features_file
from pyarrow import parquet

from equipoise.analysis.noise import NoiseEstimate
from equipoise.cli import main
from equipoise.config import load_run
from equipoise.data.batches import Batches
from equipoise.data.keep.file import TABLE
from equipoise.data.keep.settings import Clean
from equipoise.data.keep.weights import PAIR_WEIGHT
from equipoise.data.remap import subset
from equipoise.training.settings import Training
from equipoise.types import UserError
from equipoise.workflows.audit.judge import judge
from equipoise.workflows.audit.points import points_of
from equipoise.workflows.audit.stopwatch import Stopwatch
from equipoise.workflows.clean.moving_evidence import evidence_of
from equipoise.workflows.clean.online import JudgedPairs, part_ends
from equipoise.workflows.load import load

IMAGES = 240


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> list[str]:
    """240 images of two texts each, of which 40% have the texts of others; ten batches an epoch."""
    file = features_file(tmp_path_factory.mktemp("features") / "f.npz", IMAGES)
    values = {
        **dict.fromkeys(("data.train", "data.validation", "data.test"), str(file)),
        **dict.fromkeys(("image.width", "text.width", "space.dim"), WIDTH),
        **dict.fromkeys(("image.dropout", "text.dropout"), 0.0),
        "shuffle.share": 0.4,
        "clean.enabled": True,
        "clean.online": True,
        "clean.rule": "weights",
        "clean.every": 0.5,
        "clean.steps": 60,
        "training.steps": 8,  # of ten in an epoch
        "training.batch_size": 24,
        "training.warmup_steps": 2,
        "training.learning_rate": 0.02,
        "training.checkpoint_every": 2,
        "training.evaluate_every": 0,
    }
    return [f"{key}={json.dumps(value)}" for key, value in values.items()]


def test_what_is_judged_is_what_the_model_draws_next(settings, tmp_path):
    loaded = load_run("features", settings)
    pairs = JudgedPairs(loaded, tmp_path, Stopwatch(None))
    assert pairs.ends == [5, 8]
    source = loaded.run.training_pairs()
    batches = Batches(source, None, loaded.run.preprocess, batch_size=24, seed=loaded.run.seed)  # type: ignore[arg-type]
    for since, until in ((0, 5), (5, 8)):
        asked = pairs._asked(until)
        drawn = [index for position in range(since, until) for index in batches.batch(position).index.tolist()]
        assert sorted(index for part in asked for index in part) == sorted(drawn)
        assert all(set(own) <= set(fold) for own, fold in zip(asked, pairs.folds, strict=True))


def test_parts_of_an_epoch_judge_what_they_draw_and_no_more(settings, tmp_path, monkeypatch):
    """Against judges asked again by hand, at the step they were at; what no batch drew is not judged."""
    seen = []
    told = JudgedPairs._judgement

    def noted(pairs, number, until, asked):
        seen.append((number, until, list(asked)))
        return told(pairs, number, until, asked)

    monkeypatch.setattr(JudgedPairs, "_judgement", noted)
    words = [word for text in settings for word in ("--set", text)]
    assert main(["train", "features", *words, "--out", str(tmp_path / "run")]) == 0
    assert [(number, until) for number, until, _ in seen] == [(0, 38), (1, 38), (0, 60), (1, 60)]
    asked = [set(one[2]) | set(other[2]) for one, other in (seen[:2], seen[2:])]
    assert (len(asked[0]), len(asked[1])) == (5 * 24, 3 * 24)
    assert not asked[0] & asked[1]
    table = parquet.read_table(tmp_path / "run" / "clean" / TABLE).to_pydict()
    right = np.array(table["p_right"], dtype=float).reshape(IMAGES, 2)
    drawn = sorted(asked[0] | asked[1])
    assert sorted(np.flatnonzero(~np.isnan(right).any(axis=1))) == drawn
    assert set(np.array(table["weight"]).reshape(IMAGES, 2)[np.isnan(right)]) == {1.0}
    source = load_run("features", settings).run.training_pairs()
    last = sorted((tmp_path / "run/clean/fold-1-of-2-seed-0/checkpoints").glob("step-*"))[-1]
    model = load(last)
    by_hand = judge(points_of(model, subset(source, seen[2][2])), model, 0, 0.2)
    wrong = np.array([not source.pair(index).truth.get("is_clean", True) for index in drawn])
    means = right[drawn].mean(axis=1)
    assert means[~wrong].mean() > means[wrong].mean() + 0.5
    # judged in the last part alone: its log r with the mean of the shares that were read
    order = np.argsort([seen[2][2][i] for i in by_hand.image_of_text], kind="stable")
    firm = by_hand.log_ratio.numpy()[order].reshape(-1, 2).mean(axis=1)
    assert np.corrcoef(firm, right[seen[2][2]].mean(axis=1))[0, 1] > 0.8


def test_weights_reach_the_batches_of_their_part(settings, tmp_path):
    loaded = load_run("features", settings)
    pairs = JudgedPairs(loaded, tmp_path, Stopwatch(None))
    evidence = evidence_of([undecided(part) for part in pairs._asked(5)], pairs._asked(5), pairs.folds, pairs.counts)
    source = pairs.weighed(evidence).run.data.build("train")
    batches = Batches(source, None, loaded.run.preprocess, batch_size=24, seed=loaded.run.seed)  # type: ignore[arg-type]
    for position in range(8):
        weights = batches.batch(position).side[PAIR_WEIGHT]
        assert bool((weights == 1).all()) == (position >= 5)


def undecided(records: Sequence[int]) -> SimpleNamespace:
    """A judgement by which every text fits as well as any other: log r = 0."""
    return SimpleNamespace(
        image_of_text=torch.arange(len(records)).repeat_interleave(2),
        log_ratio=torch.zeros(2 * len(records), dtype=torch.float64),
        reading=NoiseEstimate(0.4, (0.3, 0.5), 1.0, 1.0),
        auroc=0.9,
        knows=True,
    )


def test_judges_that_know_nothing_decide_nothing(settings, tmp_path, capsys):
    """At rates that nothing is learned by; the model is the one that all pairs make."""
    folder, slow = tmp_path / "run", ["clean.every=1000", "clean.steps=1", "training.learning_rate=1e-6"]
    words = [word for text in [*settings, *slow] for word in ("--set", text)]
    assert main(["train", "features", *words, "--set", "clean.baseline=true", "--out", str(folder)]) == 0
    told = "No judge can tell the pairs from shuffled ones"
    said = capsys.readouterr().out
    assert told in said
    assert "keep file" in said
    assert "nan%" not in said
    assert not list((folder / "clean").glob("keep.*"))
    models = [(place / "model.safetensors").read_bytes() for place in (folder, folder / "all-pairs")]
    assert models[0] == models[1]
    report = (folder / "report.html").read_text()
    assert told in report
    assert "all pairs</th>" in report
    assert main(["train", "--resume", str(folder)]) == 0
    assert "is finished" in capsys.readouterr().out
    (folder / "report.html").unlink()  # as if killed before it was written
    assert main(["train", "--resume", str(folder)]) == 0
    assert told in capsys.readouterr().out
    assert told in (folder / "report.html").read_text()
    assert not list((folder / "clean").glob("keep.*"))


def test_where_parts_end():
    training = replace(Training(), steps=23, batch_size=50)
    assert part_ends(Clean(every=1), training, 500) == [10, 20, 23]
    assert part_ends(Clean(every=0.5), training, 500) == [5, 10, 15, 20, 23]
    assert part_ends(Clean(every=0.4), training, 500) == [4, 8, 12, 16, 20, 23]
    assert part_ends(Clean(every=0.7), training, 500) == [7, 14, 23]  # no part of two steps
    assert part_ends(Clean(every=1.5), training, 500) == [15, 23]
    with pytest.raises(UserError, match=r"clean\.every = 0\.1 is 1 of the 10 steps .* set it to 0\.2 or more"):
        part_ends(Clean(every=0.1), training, 500)
    assert part_ends(Clean(every=0.2), training, 500)[0] == 2
    large = replace(training, batch_size=400)  # parts are whole steps
    with pytest.raises(UserError, match=r"is 0 of the 1 steps .* set it to 1\.0 or more"):
        part_ends(Clean(every=0.3), large, 500)
