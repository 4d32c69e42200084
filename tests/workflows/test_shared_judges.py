"""Judges that `audit` and `clean` train themselves, whose points several processes compute."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from judged_features import features_file, noisy_words
from slow_parts import contents
from test_engines import damaged_shard

from equipoise.cli import main
from equipoise.config import load_run
from equipoise.data.copies.watch import WatchedSource
from equipoise.evaluation import encoding
from equipoise.types import UserError
from equipoise.workflows.audit import points, points_job
from equipoise.workflows.audit.folds import folds, judges, training_pairs
from equipoise.workflows.audit.points import Judge, points_here
from equipoise.workflows.audit.points_job import JudgedData
from equipoise.workflows.audit.shared_points import SCORES, SharedPoints
from equipoise.workflows.engines import Engine

TINY_JUDGES = (
    "preprocess.size=16", "image.patch=8", "training.steps=3", "training.batch_size=4", "training.warmup_steps=0",
    "training.device=cpu", "training.workers=0",
)  # fmt: skip
TIMED = re.compile(r"(metrics\.jsonl|tfevents[^/]*)$")  # say how fast judges were trained


def judged(command: str, *arguments: str, out: Path) -> dict[str, bytes]:
    """The files that a command writes; a page says where it lies."""
    assert main([command, *arguments, "--out", str(out)]) == 0
    here = str(out).encode()
    return {name: data.replace(here, b"OUT") for name, data in contents(out).items() if not TIMED.search(name)}


def pictures(folder: Path) -> list[str]:
    """Twenty pictures, of which two are the same and one cannot be read, and how to train judges on them."""
    pytest.importorskip("webdataset")
    changes = [word for setting in TINY_JUDGES for word in ("--set", setting)]
    return [str(damaged_shard(folder / "a.tar", 20)), "--recipe", "clip-scenes", *changes]


def in_small_parts(monkeypatch: pytest.MonkeyPatch, size: int = 4) -> None:
    """Batches and files of a few records, here."""
    for place in (points, points_job):
        monkeypatch.setattr(place, "BATCH", size)
    for place in (encoding, points_job):
        monkeypatch.setattr(place, "TEXTS_AT_ONCE", size)
    monkeypatch.setattr(points_job, "BATCHES", 1)


def test_what_several_processes_left_one_goes_on_with_to_the_same_bytes(tmp_path, monkeypatch):
    """Audit of pictures, in several files a fold."""
    in_small_parts(monkeypatch)
    data = pictures(tmp_path)
    one = judged("audit", *data, out=tmp_path / "one")
    left = tmp_path / "two" / f"{SCORES}of-other-settings"
    left.mkdir(parents=True)
    written = []
    write = points_job.write_arrays

    def noted(path, *rest):
        written.append(path.parent)
        write(path, *rest)

    monkeypatch.setattr(points_job, "write_arrays", noted)
    two = judged("audit", *data, out=tmp_path / "two")
    assert len(set(written)) == 6  # pictures and texts of two folds, and of all by one judge
    assert len(written) > 18
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def test_further_rounds_are_shared_too(tmp_path, monkeypatch):
    in_small_parts(monkeypatch, 32)
    data = noisy_words(features_file(tmp_path / "f.npz", 200), **{"clean.rounds": 2, "clean.steps": 30})
    one = judged("clean", "features", *data, out=tmp_path / "one")
    (tmp_path / "two" / f"{SCORES}left").mkdir(parents=True)
    made = []
    compute = SharedPoints.__call__

    def noted(self, judge, source, part):
        made.append((judge.folder, len(part)))
        return compute(self, judge, source, part)

    monkeypatch.setattr(SharedPoints, "__call__", noted)
    two = judged("clean", "features", *data, out=tmp_path / "two")
    assert len({folder for folder, _ in made}) == 2 * 2  # folds, rounds
    assert sum(count for _, count in made) == 2 * 200
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


@pytest.fixture
def shared(tmp_path) -> SharedPoints:
    file = features_file(tmp_path / "f.npz", 24)
    overrides = noisy_words(file, **{"training.steps": 2, "training.batch_size": 4})[1::2]
    (tmp_path / "out").mkdir()
    return SharedPoints(JudgedData("features", "", tuple(overrides)), Engine(), tmp_path / "out")


def first_judge(shared: SharedPoints) -> tuple[Judge, tuple[int, ...]]:
    loaded, parts = load_run(shared.data.data, shared.data.overrides), folds(24, 2, seed=0)
    return next(next(judges(loaded, parts, shared.out, seed=0))), parts[0]


def test_points_that_are_there_are_not_computed_again(shared, monkeypatch):
    in_small_parts(monkeypatch)
    judge, part = first_judge(shared)
    source = training_pairs(load_run("features", shared.data.overrides).run)
    expected, found = points_here(judge, source, part), shared(judge, source, part)
    files = {path: path.stat().st_mtime_ns for path in shared.out.glob(f"{SCORES}*/*/*.safetensors")}
    assert len(files) == 3 + 6
    gone = sorted(files)[-1]
    gone.unlink()
    again = shared(judge, source, part)
    for pairs in (found, again):
        for name in ("images", "texts", "image_of_text"):
            assert torch.equal(getattr(pairs, name), getattr(expected, name))
    kept = {path: path.stat().st_mtime_ns for path in files}
    assert [path for path in files if kept[path] != files[path]] == [gone]
    shared(judge, source, folds(24, 2, seed=0)[1])
    assert len(list(shared.out.glob(f"{SCORES}*"))) == 2  # other records, other files


def test_points_stay_until_all_is_done(shared):
    judge, part = first_judge(shared)
    source = training_pairs(load_run("features", shared.data.overrides).run)

    def scored_by(folder: Path | None, then: BaseException) -> None:
        with shared.kept_until_done():
            shared(Judge(judge.model, folder), source, part)
            raise then

    with pytest.raises(KeyboardInterrupt):
        scored_by(judge.folder, KeyboardInterrupt())
    assert any(shared.out.glob(f"{SCORES}*"))
    with pytest.raises(UserError, match="no model"):  # the user is to start again
        scored_by(Path("nowhere"), KeyboardInterrupt())
    assert any(shared.out.glob(f"{SCORES}*"))
    with pytest.raises(UserError, match="knows nothing"):
        scored_by(judge.folder, UserError("the judge knows nothing"))
    assert not any(shared.out.glob(f"{SCORES}*"))


def test_a_caption_of_several_pictures_is_encoded_once(tmp_path, monkeypatch):
    """In the batches of one process, where texts that differ count."""
    in_small_parts(monkeypatch)
    settings = ["data.train_size=12", "training.steps=1", "training.batch_size=4", "training.device=cpu"]
    loaded = load_run("demo", settings)
    source = training_pairs(loaded.run)
    texts = encoding.captions(source, 0)
    assert len(texts.distinct()[0].texts) < len(texts.texts)
    (tmp_path / "out").mkdir()
    judge = next(next(judges(loaded, folds(12, 2, seed=0), tmp_path / "out", seed=0)))
    part = range(len(source))
    found = SharedPoints(JudgedData("demo", "", tuple(settings)), Engine(), tmp_path / "out")(
        judge, WatchedSource(source), part
    )
    expected = points_here(judge, source, part)
    assert torch.equal(found.texts, expected.texts)
    assert torch.equal(found.images, expected.images)


def test_ray_that_is_not_there_is_told_before_a_judge_is_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    for command in ("audit", "clean"):
        assert main([command, "demo", "--out", str(tmp_path / "out"), "--engine", "ray"]) == 2
        assert "equipoise[ray]" in capsys.readouterr().err
    assert not list(tmp_path.glob("out/fold-*"))


@pytest.mark.slow
def test_two_processes_audit_pictures_as_one_does(tmp_path):
    data = pictures(tmp_path)
    one = judged("audit", *data, out=tmp_path / "one")
    two = judged("audit", *data, "--processes", "2", out=tmp_path / "two")
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert b"copy" in two["neighbours.csv"]


def clean_words(folder: Path) -> list[str]:
    """Folds of 2,200 images, so that their points are in two files."""
    return ["features", *noisy_words(features_file(folder / "f.npz", 4400), **{"clean.rounds": 2, "clean.steps": 50})]


@pytest.mark.slow
def test_two_processes_clean_in_rounds_as_one_does_and_killed_go_on(tmp_path):
    """Killed twice: while a fold is scored, and while a judge of the second round is trained."""
    data = clean_words(tmp_path)
    one = judged("clean", *data, out=tmp_path / "one")
    out = tmp_path / "two"
    command = ["clean", *data, "--processes", "2", "--out", str(out)]
    killed_once(command, lambda: any(out.glob(f"{SCORES}*/images/*.safetensors")))
    before = {path: path.stat().st_mtime_ns for path in out.glob(f"{SCORES}*/*/*.safetensors")}
    assert before
    killed_once(command, lambda: any(out.glob("round-2/fold-2-*/checkpoints")))
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(out.glob(f"{SCORES}*"))) == 3  # two folds, and the first of the second round
    two = judged("clean", *data, "--processes", "2", out=out)
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def killed_once(arguments: list[str], ready) -> None:
    """Run a command, and kill it and its processes as soon as `ready()`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "equipoise", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not ready() and process.poll() is None:
        time.sleep(0.01)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
