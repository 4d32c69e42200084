"""Retrieval against a brute-force reading of the definitions, and against open_clip where it has the same number."""

import itertools
from statistics import mean

import numpy as np
import pytest
import torch

import equipoise.evaluation.ranking as module
from equipoise.evaluation.ranking import any_hit, average_precision, retrieval, retrieval_chance
from equipoise.types import UserError


def dot(u, v):
    return u @ v.T


def ranking(scores, relevant):
    """Items best first; among equals the irrelevant ones come first."""
    return sorted(range(len(scores)), key=lambda item: (-scores[item], relevant[item]))


def oracle(scores, labelled, relevant=None):
    """The numbers of one direction by Python loops; rows are queries."""
    numbers, hits = {}, {1: [], 5: [], 10: []}
    for row, truth in zip(scores, labelled, strict=True):
        if any(truth):
            order = ranking(row, truth)
            for k, found in hits.items():
                found.append(any(truth[item] for item in order[:k]))
    numbers = {f"R@{k}": np.mean(values) for k, values in hits.items()} | {"queries": len(hits[1])}
    if relevant is None:
        return numbers
    average, precision, first = [], [], []
    for row, truth in zip(scores, relevant, strict=True):
        if count := sum(truth):
            found = [truth[item] for item in ranking(row, truth)]
            average.append(sum(found[i] * sum(found[: i + 1]) / (i + 1) for i in range(count)) / count)
            precision.append(sum(found[:count]) / count)
            first.append(found[0])
    return numbers | {
        "mAP@R": np.mean(average),
        "R-Precision": np.mean(precision),
        "true_R@1": np.mean(first),
        "true_queries": len(average),
    }


def world(seed, n=23, m=61, d=5, levels=None):
    """Points, several texts for most images, none for some; `levels` makes ties by rounding."""
    random = torch.Generator().manual_seed(seed)
    images, texts = (torch.randn(size, d, generator=random, dtype=torch.float64) for size in (n, m))
    if levels:
        images, texts = (images * levels).round(), (texts * levels).round()
    image_of_text = torch.randint(0, n - 3, (m,), generator=random)
    relevance = torch.rand(n, m, generator=random) < torch.rand(n, 1, generator=random) * 0.6
    relevance[4], relevance[:, 7] = False, False
    relevance[5] = True
    return images, texts, image_of_text, relevance


@pytest.mark.parametrize(("seed", "levels", "chunk"), itertools.product(range(4), (None, 1), (1, 7, 1024)))
def test_equals_the_loops(seed, levels, chunk):
    images, texts, image_of_text, relevance = world(seed, levels=levels)
    got = retrieval(images, texts, dot, image_of_text, relevance, chunk=chunk)
    scores = (images @ texts.T).numpy()
    labelled = image_of_text[None, :].numpy() == np.arange(len(images))[:, None]
    truth = relevance.numpy()
    expected = {f"image_to_text_{name}": value for name, value in oracle(scores, labelled, truth).items()}
    expected |= {f"text_to_image_{name}": value for name, value in oracle(scores.T, labelled.T, truth.T).items()}
    recalls = [value for name, value in expected.items() if "_R@" in name and "true" not in name]
    expected |= {"mean_recall": np.mean(recalls), "rsum": 100 * sum(recalls)}
    assert len(recalls) == 6
    assert got == pytest.approx(expected, abs=1e-12)


def test_the_oracle_by_hand():
    """Two matches, ranked first and third: mAP@R = (1/1 + 0) / 2, R-Precision = 1/2."""
    images, texts = torch.tensor([[1.0]]), torch.tensor([[0.9], [0.8], [0.7]])
    got = retrieval(images, texts, dot, torch.tensor([0, 0, 0]), np.array([[True, False, True]]))
    assert got["image_to_text_mAP@R"] == 0.5
    assert got["image_to_text_R-Precision"] == 0.5
    assert got["image_to_text_true_R@1"] == 1.0
    assert got["text_to_image_true_queries"] == 2


def test_equals_open_clip_on_one_text_an_image(open_clip):
    from open_clip_train.train import get_clip_metrics

    random = torch.Generator().manual_seed(3)
    images = torch.nn.functional.normalize(torch.randn(200, 16, generator=random), dim=1)
    texts = torch.nn.functional.normalize(images + 0.3 * torch.randn(200, 16, generator=random), dim=1)
    peer = get_clip_metrics(images, texts, torch.tensor(100.0))
    got = retrieval(images, texts, dot, torch.arange(200))
    for name in (f"{way}_R@{k}" for way in module.DIRECTIONS for k in module.RECALLS):
        assert got[name] == pytest.approx(peer[name], abs=1e-12)
    assert 0.1 < got["image_to_text_R@1"] < 0.95  # or the comparison says nothing


def test_all_equal_embeddings_score_nothing():
    same = torch.eye(4)[:1].expand(50, 4)
    got = retrieval(same, same, dot, torch.arange(50), np.eye(50, dtype=bool))
    assert {name: value for name, value in got.items() if value and "queries" not in name} == {}


def test_perfect_embeddings_score_everything():
    got = retrieval(torch.eye(12), torch.eye(12), dot, torch.arange(12), torch.eye(12, dtype=torch.bool))
    assert got["rsum"] == 600
    assert got["mean_recall"] == got["text_to_image_mAP@R"] == 1


def test_images_come_first_in_the_similarity():
    """A lopsided similarity is asked the same way round in both directions."""
    images, texts, image_of_text, _ = world(0)

    def lopsided(u, v):
        assert u.shape[1] == v.shape[1]
        return u @ v.T + 3 * v[:, 0]

    scores = lopsided(images, texts)
    got = retrieval(images, texts, lopsided, image_of_text, chunk=5)
    labelled = image_of_text[None, :] == torch.arange(len(images))[:, None]
    expected = oracle(scores.T.numpy(), labelled.T.numpy())
    assert got["text_to_image_R@1"] == pytest.approx(expected["R@1"])


def test_never_all_pairs_at_once(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_BLOCK", 150)
    images, texts, image_of_text, relevance = world(1)

    def watched(u, v):
        assert len(u) * len(v) <= 150
        return u @ v.T

    assert retrieval(images, texts, watched, image_of_text, relevance) == pytest.approx(
        retrieval(images, texts, dot, image_of_text, relevance, chunk=3)
    )


def test_relevance_may_be_a_read_only_array():
    images, texts, image_of_text, relevance = world(2)
    array = relevance.numpy().copy()
    array.flags.writeable = False
    assert retrieval(images, texts, dot, image_of_text, array) == retrieval(
        images, texts, dot, image_of_text, relevance
    )


def test_a_truth_without_matches_yields_no_numbers():
    got = retrieval(torch.eye(3), torch.eye(3), dot, torch.arange(3), np.zeros((3, 3), dtype=bool))
    assert got["image_to_text_true_queries"] == 0
    assert "image_to_text_mAP@R" not in got


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"texts": torch.zeros(0, 3)}, "needs images and texts"),
        ({"image_of_text": torch.tensor([0, 1, 3])}, "from 0 to 2"),
        ({"image_of_text": torch.tensor([0, 1])}, "for each of the 3 texts"),
        ({"relevance": np.zeros((3, 4), dtype=bool)}, r"shape \(3, 4\)"),
        ({"images": torch.full((3, 3), torch.nan)}, "not finite"),
    ],
)
def test_mistakes_are_named(change, message):
    given = {"images": torch.eye(3), "texts": torch.eye(3), "image_of_text": torch.arange(3), "similarity": dot}
    with pytest.raises(UserError, match=message):
        retrieval(**(given | change))


@pytest.mark.parametrize(("matches", "candidates"), [(1, 6), (2, 6), (4, 6), (6, 6), (1, 1)])
def test_equals_the_mean_over_every_ranking(matches, candidates):
    rankings = [
        [place in chosen for place in range(candidates)]
        for chosen in itertools.combinations(range(candidates), matches)
    ]
    for k in (1, 2, 5, 10):
        assert any_hit(np.array([matches]), candidates, k)[0] == pytest.approx(mean(any(r[:k]) for r in rankings))
    expected = mean(sum(r[i] * sum(r[: i + 1]) / (i + 1) for i in range(matches)) / matches for r in rankings)
    assert average_precision(np.array([float(matches)]), candidates)[0] == pytest.approx(expected)


def test_random_embeddings_score_about_chance():
    random = torch.Generator().manual_seed(0)
    images, texts = torch.randn(300, 32, generator=random), torch.randn(900, 32, generator=random)
    image_of_text = torch.arange(900) % 250  # fifty images without a text
    relevance = torch.rand(300, 900, generator=random) < 0.2
    got = retrieval(images, texts, lambda u, v: u @ v.T, image_of_text, relevance)
    expected = retrieval_chance(300, image_of_text, relevance)
    assert set(expected) == {name for name in got if "queries" not in name}
    for name in expected:
        assert got[name] == pytest.approx(expected[name], abs=0.06 if name != "rsum" else 8)
