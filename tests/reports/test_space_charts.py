"""The histogram of similarities and the map of the embedding, against their definitions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.config import load_run
from equipoise.data.scenes import Scenes
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.settings import Evaluation
from equipoise.models.model import Model
from equipoise.reports.embedding_map import PAIRS, Sample, make_map, principal_coordinates, require_map, sample_pairs
from equipoise.reports.held_out import HeldOut, evenly, held_out
from equipoise.reports.similarities import bins, similarity_histogram
from equipoise.reports.space_charts import gather_space
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere, TokenSets
from equipoise.types import UserError
from equipoise.workflows import run_recipe

SPACES = (Sphere(12), ProductSphere(4, 3), Euclidean(12))


def scenes(size: int) -> Scenes:
    return load_run("demo", [f"data.test_size={size}", "data.captions=2"]).run.data.build("test")


def looked_at(model: Model, size: int, **settings: int) -> HeldOut:
    return HeldOut(Encoded(model, scenes(size), Evaluation(**{"captions": 0, **settings})))  # type: ignore[arg-type]


@pytest.mark.parametrize("images", [6, 20, 1000])
def test_the_histogram_counts_every_pair_of_its_sample(model: Model, images: int) -> None:
    data = looked_at(model, 20, chunk=3)
    assert all(len(numbers) <= 3 for numbers, _, _ in data.blocks(by_text=False))
    histogram = similarity_histogram(data, images)
    assert histogram is not None
    chosen = [round((20 - 1) * k / (images - 1) - 0.499) for k in range(images)] if images < 20 else range(20)
    texts = data.captions.texts
    truth = scenes(20).relevance(range(20), texts)
    values: dict[bool, list[float]] = {True: [], False: []}
    for image in chosen:
        for text in range(len(texts)):
            similarity = float(data.images[image].double() @ data.texts[text].double())
            values[bool(truth[image, text])].append(similarity)
    everything = values[True] + values[False]
    assert histogram.edges[[0, -1]] == pytest.approx([min(everything), max(everything)], abs=1e-6)
    for counts, kind in ((histogram.matches, True), (histogram.others, False)):
        assert counts.sum() == len(values[kind])
        middle = np.histogram(values[kind], histogram.edges + np.linspace(-1e-6, 1e-6, len(histogram.edges)))[0]
        assert np.abs(counts - middle).sum() <= 2  # of pairs at an edge, by rounding
    assert (histogram.images, histogram.of) == (min(images, 20), 20)
    assert ("of its 20 images" in histogram.sample) == (images < 20)


def test_bins_are_as_many_as_matches_can_fill() -> None:
    assert [bins(matches) for matches in (0, 8, 1000, 8000, 10**9)] == [12, 12, 20, 40, 60]


def test_a_sample_is_spread_over_all_and_the_same_each_time() -> None:
    assert evenly(3, 5) == [0, 1, 2]
    drawn = evenly(10_001, 100)
    assert (drawn[0], drawn[-1], len(set(drawn))) == (0, 10_000, 100)
    assert drawn == sorted(drawn) == evenly(10_001, 100)


def cloud(space: Space, pairs: int = 30) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    stretched = torch.randn(2 * pairs, space.dim, generator=draw).double() * torch.linspace(3, 0.2, space.dim)
    return space.project(stretched)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_pca_is_that_of_the_covariance(space: Space) -> None:
    points = cloud(space)
    coordinates, shares = principal_coordinates(points, space)
    values, vectors = np.linalg.eigh(np.cov(points.numpy().T))
    assert shares[:2] == pytest.approx(values[::-1][:2] / values.sum())
    along = (points.numpy() - points.numpy().mean(0)) @ vectors[:, ::-1][:, :2]
    np.testing.assert_allclose(np.abs(coordinates[:, :2]), np.abs(along), atol=1e-9)
    assert (coordinates.max(0) >= -coordinates.min(0))[:2].all()  # so that its sign is the same each time


def test_similarities_in_place_of_vectors_give_the_same_on_a_sphere() -> None:
    class WithoutGeodesics(Sphere):
        has_geodesics = False

    points = cloud(Sphere(12))
    flat, shares = principal_coordinates(points, Sphere(12))
    by_similarity, same = principal_coordinates(points, WithoutGeodesics(12))
    np.testing.assert_allclose(by_similarity[:, :2], flat[:, :2], atol=1e-7)
    assert same[:2] == pytest.approx(shares[:2])


def test_sets_of_vectors_have_a_map_too() -> None:
    space = TokenSets(n=4, m=3)
    found = make_map(Sample(cloud(space), space, 30))
    assert found.images.shape == found.texts.shape == (30, 2)
    assert np.isfinite(found.images).all()
    assert found.images.std() > 0


def test_pairs_on_the_map_belong_together(model: Model) -> None:
    data = looked_at(model, 20)
    sample = sample_pairs(data, pairs=7)
    assert sample is not None
    for number, image in enumerate(evenly(20, 7)):
        text = data.owners.tolist().index(image)
        assert torch.equal(sample.points[number], data.images[image].double())
        assert torch.equal(sample.points[7 + number], data.texts[text].double())
    assert len(sample.points) == 14
    assert PAIRS <= 500
    assert sample_pairs(looked_at(model, 1)) is None


def test_points_that_are_all_the_same_are_drawn(model: Model) -> None:
    found = make_map(Sample(torch.ones(6, 4).double(), Euclidean(4), 3))
    assert not found.images.any()


def test_charts_say_what_they_show(model: Model) -> None:
    histogram, drawn = gather_space(looked_at(model, 12), "pca").charts()
    assert "non-matches" in histogram["note"]
    assert "12 pairs" in drawn["note"]
    assert drawn["svg"].count("<use") >= 24
    assert "var(--series-2)" in histogram["svg"]
    assert str(drawn["svg"]) == str(gather_space(looked_at(model, 12), "pca").charts()[1]["svg"])


def test_a_report_shows_both(finished_run: Path) -> None:
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    assert page.count('aria-label="Similarities"') == page.count('aria-label="Map of the embedding"') == 1


def test_class_data_has_nothing_to_rank(model: Model) -> None:
    class OfClasses(Scenes):
        names_classes = True

    data = OfClasses.__new__(OfClasses)
    data.__dict__.update(scenes(4).__dict__)
    assert held_out(Encoded(model, data, Evaluation())) is None


def test_umap_that_is_missing_is_said_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(UserError, match=r"umap-learn; pip install 'equipoise\[umap\]'"):
        run_recipe("demo", ["evaluation.map=umap"], tmp_path / "run", "")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    require_map("pca")


@pytest.mark.slow
def test_umap_draws_the_same_map_each_time() -> None:
    pytest.importorskip("umap", reason="umap-learn is not installed: maps by UMAP are NOT tested")
    sample = Sample(cloud(Sphere(12)), Sphere(12), 30)
    one, two = make_map(sample, "umap"), make_map(sample, "umap")
    np.testing.assert_array_equal(one.images, two.images)
    assert one.axes == ("UMAP 1", "UMAP 2")
    assert not np.allclose(one.images, make_map(sample).images)
    assert make_map(Sample(cloud(Sphere(12), 2), Sphere(12), 2), "umap").texts.shape == (2, 2)
