"""Neighbours among strangers: of all records, or of a sample under the numbers of all, against a loop over pairs."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from equipoise.analysis.noise import Pairs, sums_over
from equipoise.data.copies.features import unit_vectors
from equipoise.data.features import FeatureFiles
from equipoise.workflows.audit import strangers
from equipoise.workflows.audit.judge import pool_of
from equipoise.workflows.audit.strangers import alike_images, fitting_texts

RECORDS, WIDTH, SCALE, COUNT, SEED = 60, 8, 5.0, 12, 3
TEXTS = [1 + number % 3 for number in range(RECORDS)]
OWNERS = torch.arange(RECORDS).repeat_interleave(torch.tensor(TEXTS))
JUDGE = SimpleNamespace(model=SimpleNamespace(space=SimpleNamespace(similarity=lambda u, v: u @ v.T)), folder=None)


@pytest.fixture
def source(tmp_path) -> FeatureFiles:
    rng = np.random.default_rng(0)
    image = rng.normal(size=(RECORDS, WIDTH)).astype(np.float32)
    np.savez(tmp_path / "f.npz", image=image, captions=np.arange(RECORDS).astype(str))
    return FeatureFiles([tmp_path / "f.npz"])


class Encoded:
    """The points of records, and which were asked for."""

    def __init__(self) -> None:
        drawn = torch.Generator().manual_seed(1)
        self.images, self.texts = (torch.randn(size, 4, generator=drawn) for size in (RECORDS, len(OWNERS)))
        self.asked: list[int] = []

    def __call__(self, judge, source, part) -> Pairs:
        self.asked += part
        texts = [row for number in part for row in (number == OWNERS).nonzero().flatten().tolist()]
        place = torch.tensor([list(part).index(owner) for owner in OWNERS[texts].tolist()])
        return Pairs(self.images[list(part)], self.texts[texts], place)


def read_aloud(encoded: Encoded, numbers: list[int]) -> list[list[float]]:
    """Every image of these records with every text of the others of them, the best first."""
    points = encoded(JUDGE, None, numbers)
    pool, same = pool_of(points, SEED)
    similarity, scales = JUDGE.model.space.similarity, torch.tensor([SCALE], dtype=torch.float64)
    by_image, by_text = (part.mean()[0] for part in sums_over(points, pool, same, similarity, scales))
    texts = [row for number in numbers for row in (number == OWNERS).nonzero().flatten().tolist()]
    found = [
        [SCALE * float(encoded.images[image] @ encoded.texts[text]) - float(by_image[i] + by_text[j]) / 2, image, text]
        for i, image in enumerate(numbers)
        for j, text in enumerate(texts)
        if OWNERS[text] != image
    ]
    return sorted(found, reverse=True)[:COUNT]


def same(found: list[list[float]], expected: list[list[float]]) -> None:
    assert [tuple(row[1:]) for row in found] == [tuple(row[1:]) for row in expected]
    assert [row[0] for row in found] == pytest.approx([row[0] for row in expected], abs=1e-4)


def test_texts_that_fit_are_those_of_all_pairs(source):
    encoded = Encoded()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fitting_texts(source, JUDGE, SCALE, encoded, OWNERS, COUNT, SEED)
    same(found, read_aloud(encoded, list(range(RECORDS))))


def test_of_many_records_a_sample_is_encoded_and_compared_and_it_is_said(source, monkeypatch):
    monkeypatch.setattr(strangers, "LARGEST", 20)
    encoded = Encoded()
    with pytest.warns(UserWarning, match=r"texts of other records .* among 20 of the 60 records, drawn at random"):
        found = fitting_texts(source, JUDGE, SCALE, encoded, OWNERS, COUNT, SEED)
    drawn = list(encoded.asked)
    assert len(drawn) == len(set(drawn)) == 20
    assert drawn == sorted(drawn) != list(range(20))
    same(found, read_aloud(encoded, drawn))


def test_the_sample_goes_by_the_seed(source, monkeypatch):
    monkeypatch.setattr(strangers, "LARGEST", 20)
    asked = []
    for seed in (0, 0, 1):
        encoded = Encoded()
        with pytest.warns(UserWarning, match="drawn at random"):
            fitting_texts(source, JUDGE, SCALE, encoded, OWNERS, COUNT, seed)
        asked.append(encoded.asked)
    assert asked[0] == asked[1] != asked[2]


def closest(units: Tensor, names: list[int]) -> list[list[float]]:
    rows = range(len(names))
    pairs = [[float(units[i] @ units[j]), names[i], names[j]] for i in rows for j in rows if i < j]
    return sorted(pairs, reverse=True)[:COUNT]


def test_features_that_are_closest_are_those_of_all_pairs(source):
    same(alike_images(source, [], COUNT, SEED), closest(unit_vectors(source), list(range(RECORDS))))


def test_of_very_many_features_a_sample_is_compared_and_it_is_said(source, monkeypatch):
    monkeypatch.setattr(strangers, "MOST", 25)
    with pytest.warns(UserWarning, match=r"features are closest .* among 25 of the 60 records"):
        found = alike_images(source, [], COUNT, SEED)
    order = torch.randperm(RECORDS, generator=strangers.generator(SEED, "strangers"))
    drawn = order[:25].sort().values.tolist()
    vectors = source.image_features(drawn)[0].double()
    units = torch.nn.functional.normalize(vectors - vectors.mean(dim=0), dim=1)
    same(found, closest(units, drawn))
