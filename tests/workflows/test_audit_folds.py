"""Folds: copies of a pair are held out together, and a judge keeps to its fold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.config import load_run
from equipoise.data.bad_records import BadRecord
from equipoise.data.copies.find import Copy
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.features import FeatureFiles
from equipoise.data.source import Pair
from equipoise.models.folder import BEST
from equipoise.training.checkpoint.finished_work import FOLD
from equipoise.training.settings import Training
from equipoise.types import UserError
from equipoise.workflows.audit.copies import copied_records, held_together, joined
from equipoise.workflows.audit.folds import (
    LOOKS,
    HeldOutData,
    _look_every,
    folds,
    folds_of,
    judges,
    require_same_fold,
)


class Album:
    """A caption and a picture, drawn by a number, of each record; None where it is broken."""

    def __init__(self, *records: tuple[str, int | None]):
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def pair(self, index: int) -> Pair:
        return Pair(str(index), tuple(self.records[index][0].split()))

    def images(self, indices, size, device="cpu") -> torch.Tensor:
        if any(self.records[index][1] is None for index in indices):
            raise BadRecord("a.tar", "broken")
        seeds = [torch.Generator().manual_seed(self.records[index][1] or 0) for index in indices]
        drawn = [torch.randint(256, (3, size, size), generator=one, dtype=torch.uint8) for one in seeds]
        return torch.stack(drawn)


def test_copies_have_the_same_captions_and_the_same_picture():
    album = Album(("a b", 1), ("b a", 1), ("a b", 1), ("a b", 2), ("c", 1), ("a", 1), ("a", 7))
    assert list(copied_records(Album(*album.records, *[(f"other{n}", n) for n in range(400)]))) == [[0, 2]]


def test_a_phrase_that_very_many_share_is_not_looked_at():
    assert list(copied_records(Album(*[("photo", 1)] * 3, *[(f"other{n}", n) for n in range(50)]))) == []


def test_records_without_captions_and_broken_ones_are_no_copies():
    assert list(copied_records(Album(("", 1), ("", 1), ("a", None), ("a", None)))) == []


def test_features_are_compared_too(tmp_path):
    image = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    image[2] = image[0] * 1.01
    np.savez(tmp_path / "f.npz", image=image, captions=np.array(["a", "b", "a", "b"]))
    assert list(copied_records(FeatureFiles([tmp_path / "f.npz"]))) == [[0, 2]]


def test_copies_follow_their_first_record_and_nobody_is_lost():
    album = Album(*[(str(number % 37), number % 37) for number in range(60)])
    parts = held_together(folds(60, 3, seed=0), album)
    assert sorted(number for part in parts for number in part) == list(range(60))
    fold = {number: place for place, part in enumerate(parts) for number in part}
    assert all(fold[number] == fold[number + 37] for number in range(23))


def test_a_picture_with_other_captions_follows_its_copy():
    album = Album(*[(f"caption{number}", number % 50) for number in range(80)])
    assert held_together(folds(80, 2, seed=0), album) == folds(80, 2, seed=0)  # the captions alone tell nothing
    parts = folds_of(WatchedSource(album), 2, seed=0, size=32)
    fold = {number: place for place, part in enumerate(parts) for number in part}
    assert sorted(fold) == list(range(80))
    assert all(fold[number] == fold[number + 50] for number in range(30))


def test_a_broken_picture_stays_where_it_is():
    album = Album(*[(f"caption{number}", None if number == 7 else number % 50) for number in range(80)])
    parts = folds_of(WatchedSource(album), 2, seed=0, size=32)
    fold = {number: place for place, part in enumerate(parts) for number in part}
    assert all(fold[number] == fold[number + 50] for number in range(30) if number != 7)


def test_copies_of_copies_are_one_group_and_crowds_are_none():
    assert joined([[5, 1], [2, 9], [9, 5], [3, 4]], most=4) == [[1, 2, 5, 9], [3, 4]]
    assert joined([[5, 1], [2, 9], [9, 5], [3, 4]], most=3) == [[3, 4]]
    assert joined([], most=3) == []


def pictured_features(folder: Path, pictures: list[int]) -> WatchedSource:
    """Records of captions of their own and the features of a picture, by its number."""
    drawn = np.random.default_rng(0).normal(size=(max(pictures) + 1, 64)).astype(np.float32)
    captions = np.arange(len(pictures)).astype(str)
    np.savez(folder / "f.npz", image=drawn[pictures], captions=captions)
    return WatchedSource(FeatureFiles([folder / "f.npz"]))


def folds_by_picture(source: WatchedSource, pictures: list[int], count: int) -> tuple[list[int], list[set[int]]]:
    """How many records each fold has, and the folds that each picture is in; nobody is lost."""
    parts = folds_of(source, count, seed=0, size=32)
    assert sorted(number for part in parts for number in part) == list(range(len(pictures)))
    fold = {number: place for place, part in enumerate(parts) for number in part}
    where: list[set[int]] = [set() for _ in range(max(pictures) + 1)]
    for number, picture in enumerate(pictures):
        where[picture].add(fold[number])
    return [len(part) for part in parts], where


@pytest.mark.parametrize("times", [2, 3, 12, 40])
def test_exact_copies_are_held_out_together_however_many(tmp_path, times):
    pictures = [0] * times + list(range(1, 201 - times))
    _, where = folds_by_picture(pictured_features(tmp_path, pictures), pictures, 2)
    assert all(len(places) == 1 for places in where)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_folds_stay_balanced_where_many_are_copies(tmp_path, count):
    pictures = np.random.default_rng(count).integers(0, 8, size=240).tolist()  # thirty of each
    sizes, where = folds_by_picture(pictured_features(tmp_path, pictures), pictures, count)
    assert all(len(places) == 1 for places in where)
    largest = max(np.bincount(pictures))
    assert max(sizes) <= 240 / count + largest
    assert min(sizes) > 0


def test_more_copies_than_a_fold_has_records_stay_where_they_are(tmp_path):
    pictures = [0] * 110 + list(range(1, 91))
    source = pictured_features(tmp_path, pictures)
    assert folds_of(source, 2, seed=0, size=32) == folds(200, 2, seed=0)


def test_exact_copies_stay_together_where_near_ones_make_a_crowd(tmp_path, monkeypatch):
    source = pictured_features(tmp_path, [0, 0, 0, *range(1, 98)])
    near = [Copy(0, number, 0.9, exact=False) for number in range(3, 20)]
    monkeypatch.setattr(source, "copies", lambda: [Copy(0, 1, 1.0, True), Copy(0, 2, 1.0, True), *near])
    before = folds(100, 2, seed=0)
    fold = {number: place for place, part in enumerate(held_together(before, source)) for number in part}
    assert fold[0] == fold[1] == fold[2]
    assert all(fold[number] == place for place, part in enumerate(before) for number in part if number > 2)


def test_without_copies_folds_stay_as_they_are(scenes):
    assert held_together(folds(len(scenes), 2, seed=1), scenes) == folds(len(scenes), 2, seed=1)


def test_a_judge_is_looked_at_often_enough_to_be_caught_at_its_best():
    for steps, every, expected in ((600, 500, 600 // LOOKS), (600, 0, 600 // LOOKS), (600, 7, 7), (5, 0, 1)):
        assert _look_every(Training(steps=steps, evaluate_every=every)) == expected


def held_out(fold: tuple[int, ...], *settings: str) -> HeldOutData:
    return HeldOutData(load_run("demo", ["data.train_size=24", *settings]).run, fold)


def test_a_judge_of_another_fold_is_refused(tmp_path):
    require_same_fold(tmp_path, (0, 2), held_out((0, 2)))
    require_same_fold(tmp_path, (0, 2), held_out((0, 2)))
    with pytest.raises(UserError, match="another fold"):
        require_same_fold(tmp_path, (0, 3), held_out((0, 3)))


def test_a_judge_of_data_that_has_changed_is_refused(tmp_path):
    """It may have learned from the pairs that have the numbers of its fold by now."""
    require_same_fold(tmp_path, (0, 2), held_out((0, 2)))
    with pytest.raises(UserError, match=r"was trained on other records or captions.*choose another --out"):
        require_same_fold(tmp_path, (0, 2), held_out((0, 2), "data.noise.shuffled=0.5"))
    note = json.loads((tmp_path / FOLD).read_text())
    del note["data"]
    (tmp_path / FOLD).write_text(json.dumps(note))
    with pytest.raises(UserError, match="before the data was noted"):
        require_same_fold(tmp_path, (0, 2), held_out((0, 2)))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="judges go to a GPU where there is one")
def test_judges_judge_where_they_were_trained(tmp_path):
    small = ["data.train_size=24", "training.steps=2", "training.batch_size=8", "training.evaluate_every=1"]
    loaded = load_run("demo", small)
    panel = judges(loaded, folds(24, 2, seed=0), tmp_path, seed=0)
    assert {next(one.model.parameters()).device.type for members in panel for one in members} == {"cuda"}


def test_a_trained_judge_keeps_its_best_step_alone(tmp_path):
    small = ["data.train_size=24", "training.steps=2", "training.batch_size=8", "data.validation_size=8"]
    loaded, parts = load_run("demo", [*small, "training.evaluate_every=1"]), folds(24, 2, seed=0)

    def weights() -> list[torch.Tensor]:
        return [next(one.model.parameters()) for members in judges(loaded, parts, tmp_path, seed=0) for one in members]

    trained = weights()
    assert [sorted(path.name for path in place.glob("checkpoints/*")) for place in tmp_path.glob("fold-*")] == [
        [BEST]
    ] * 2
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert all(torch.equal(one, other) for one, other in zip(trained, weights(), strict=True))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
