"""Copies among features: those of a loop over all pairs, with less than all pairs at hand."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from equipoise.data.copies import features
from equipoise.data.copies.features import ALIKE, feature_copies, unit_vectors
from equipoise.data.copies.find import CROWD
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.features import FeatureFiles
from equipoise.workflows.audit.folds import folds, folds_of

COUNT, WIDTH = 90, 24


def source_of(folder: Path, image: np.ndarray, **more: np.ndarray) -> FeatureFiles:
    np.savez(folder / "f.npz", image=image.astype(np.float32), captions=np.arange(len(image)).astype(str), **more)
    return FeatureFiles([folder / "f.npz"])


def photographs(near: float = 0.1) -> np.ndarray:
    """Features after a ReLU, so that all raw cosines are high; 80 is 10 again, 81 to 85 are near to 11 to 15."""
    rng = np.random.default_rng(0)
    image = np.maximum(rng.normal(size=(COUNT, WIDTH)) + 1, 0)
    image[80] = image[10]
    image[81:86] = image[11:16] + near * rng.normal(size=(5, WIDTH))
    return image


def read_aloud(image: np.ndarray) -> set[tuple[int, int]]:
    """Every pair whose features are near, but for those of a crowd."""
    centred = image.astype(np.float64) - image.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    near = {(a, b) for a, b in combinations(range(len(image)), 2) if centred[a] @ centred[b] >= ALIKE}
    degree = np.bincount([number for pair in near for number in pair], minlength=len(image))
    return {(a, b) for a, b in near if max(degree[a], degree[b]) <= CROWD}


@pytest.mark.parametrize(("tile", "components"), [(2048, 128), (7, 3), (16, 1), (1, 24)])
def test_copies_are_those_of_a_loop_over_all_pairs(tmp_path, monkeypatch, tile, components):
    monkeypatch.setattr(features, "TILE", tile)
    monkeypatch.setattr(features, "AT_ONCE", 2 * tile)
    monkeypatch.setattr(features, "COMPONENTS", components)
    image = photographs().astype(np.float32)
    found = feature_copies(source_of(tmp_path, image))
    assert {(copy.first, copy.second) for copy in found} == read_aloud(image)
    assert {(10, 80), *((number, number + 70) for number in range(11, 16))} <= read_aloud(image)
    assert [(copy.first, copy.second) for copy in found if copy.exact] == [(10, 80)]
    similarities = [copy.similarity for copy in found]
    assert similarities == sorted(similarities, reverse=True)


def test_a_crowd_is_a_kind_of_picture(tmp_path):
    image = photographs()
    image[40:50] = image[40] + 0.01 * np.random.default_rng(1).normal(size=(10, WIDTH))
    found = feature_copies(source_of(tmp_path, image))
    assert not {number for copy in found for number in (copy.first, copy.second)} & set(range(40, 50))
    assert {(copy.first, copy.second) for copy in found} == read_aloud(image.astype(np.float32))


class Counting:
    """A source of features that counts the rows that are read."""

    def __init__(self, source: FeatureFiles):
        self.source, self.rows = source, 0

    def __len__(self) -> int:
        return len(self.source)

    def image_features(self, numbers):
        self.rows += len(numbers)
        return self.source.image_features(numbers)


def kinds(size: int) -> np.ndarray:
    """Two kinds of so many images, opposite ones so that the mean is between them, around the photographs."""
    rng = np.random.default_rng(3)
    centre, spread = 3 * rng.normal(size=WIDTH), 0.05 * rng.normal(size=(2, size, WIDTH))
    return np.concatenate([centre + spread[0], photographs() - 1, spread[1] - centre]).astype(np.float32)


@pytest.mark.parametrize(("tile", "at_once"), [(2048, 64), (16, 5), (50, 100)])
def test_within_a_crowd_few_pairs_are_compared_in_full(tmp_path, monkeypatch, tile, at_once):
    monkeypatch.setattr(features, "TILE", tile)
    monkeypatch.setattr(features, "AT_ONCE", at_once)
    image = kinds(100)
    source = Counting(source_of(tmp_path, image))
    found = {(copy.first, copy.second) for copy in feature_copies(source)}
    assert found == read_aloud(image)
    assert len(found) == 6
    assert source.rows < 2 * 100 * 99 / 2  # of all pairs within the kinds, two rows each would be twice as many


def test_where_many_pairs_are_left_a_product_goes_before(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "COMPONENTS", 1)  # nearly all pairs are left
    image = photographs()
    rows = {}
    for many in (0, COUNT**2):
        monkeypatch.setattr(features, "MANY", many)
        source = Counting(source_of(tmp_path, image))
        found = feature_copies(source)
        assert {(copy.first, copy.second) for copy in found} == read_aloud(image.astype(np.float32))
        rows[many] = source.rows
    assert rows[0] < 8 * COUNT < rows[COUNT**2]


def test_tokens_are_compared_by_the_mean_of_the_real_ones(tmp_path):
    rng = np.random.default_rng(2)
    image = rng.normal(size=(30, 5, WIDTH))
    lengths = rng.integers(2, 6, size=30)
    lengths[29] = lengths[4]
    image[29, : lengths[4]] = image[4, : lengths[4]][::-1]  # the same tokens, and other padding
    found = feature_copies(source_of(tmp_path, image, image_lengths=lengths))
    assert [(copy.first, copy.second) for copy in found] == [(4, 29)]


def test_features_that_are_all_the_same_are_exact_copies_and_one_has_none(tmp_path):
    found = feature_copies(source_of(tmp_path, np.ones((5, 3))))
    assert [(copy.first, copy.second, copy.exact) for copy in found] == [(0, number, True) for number in range(1, 5)]
    assert feature_copies(source_of(tmp_path, np.ones((1, 3)))) == []


def test_unit_vectors_give_the_cosines_that_copies_are_found_by(tmp_path):
    source = source_of(tmp_path, photographs())
    units = unit_vectors(source)
    for copy in feature_copies(source):
        assert float(units[copy.first] @ units[copy.second]) == pytest.approx(copy.similarity, abs=1e-5)


def test_one_picture_with_other_captions_stays_in_one_fold_and_is_a_copy(tmp_path):
    source = source_of(tmp_path, photographs())
    pairs = [(10, 80), *((number, number + 70) for number in range(11, 16))]
    plain = {number: part for part, numbers in enumerate(folds(COUNT, 2, 0)) for number in numbers}
    assert any(plain[one] != plain[other] for one, other in pairs)
    for watched in (source, WatchedSource(source)):
        parts = folds_of(watched, 2, 0, 32)
        fold = {number: part for part, numbers in enumerate(parts) for number in numbers}
        assert sorted(fold) == list(range(COUNT))
        assert all(fold[one] == fold[other] for one, other in pairs)
    assert {(copy.first, copy.second) for copy in WatchedSource(source).copies()} >= set(pairs)


def test_of_very_many_images_exact_copies_are_found_and_it_is_said(tmp_path, monkeypatch):
    image = photographs()
    image[7] = image[3]
    monkeypatch.setattr(features, "MOST", len(image) - 1)
    with pytest.warns(UserWarning, match=r"near copies are not looked for among the features of .* --pictures"):
        found = feature_copies(source_of(tmp_path, image))
    assert (3, 7) in {(copy.first, copy.second) for copy in found}
    assert all(copy.exact for copy in found)
