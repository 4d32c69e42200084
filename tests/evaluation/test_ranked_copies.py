"""Copies among what is ranked, against loops over the definition; a perfect model scores 100% whatever is copied."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_retrieval import oracle

import equipoise.evaluation.ranking as module
from equipoise.data.remap import subset
from equipoise.data.source import Pair
from equipoise.evaluation.copies import Copies, Matches, find_copies
from equipoise.evaluation.encoding import captions
from equipoise.evaluation.ranking import retrieval, retrieval_chance
from equipoise.evaluation.retrieval import counted_copies
from equipoise.evaluation.settings import Evaluation


def dot(u, v):
    return u @ v.T


def world(seed: int, n: int = 17, m: int = 40):
    random = torch.Generator().manual_seed(seed)
    owners = torch.randint(0, n - 2, (m,), generator=random)
    pictures = torch.randint(0, 9, (n,), generator=random)
    words = torch.randint(0, 25, (m,), generator=random)
    return owners, Copies(pictures, words)


def by_loops(owners, copies, n):
    """Bool [N, M] from the definition."""
    m = len(owners)
    return np.array([
        [
            any(copies.texts[s] == copies.texts[t] and copies.images[owners[s]] == copies.images[a] for s in range(m))
            for t in range(m)
        ]
        for a in range(n)
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_recall_with_copies_equals_the_loops(seed: int, chunk: int) -> None:
    owners, copies = world(seed)
    images, texts = (torch.randn(n, 4, dtype=torch.float64).round() for n in (17, 40))
    truth = by_loops(owners, copies, 17)
    got = retrieval(images, texts, dot, owners, chunk=chunk, copies=copies)
    scores = (images @ texts.T).numpy()
    expected = {f"image_to_text_{name}": value for name, value in oracle(scores, truth).items()}
    expected |= {f"text_to_image_{name}": value for name, value in oracle(scores.T, truth.T).items()}
    assert {name: got[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_chance_with_copies_is_the_mean_of_random_rankings() -> None:
    owners, copies = world(0)
    truth = by_loops(owners, copies, 17)
    np.testing.assert_array_equal(Matches(owners, 17, copies).counts(by_text=True), truth.sum(0))
    np.testing.assert_array_equal(Matches(owners, 17, copies).counts(by_text=False), truth.sum(1))
    expected = retrieval_chance(17, owners, copies=copies)
    rounds = [retrieval(torch.randn(17, 30), torch.randn(40, 30), dot, owners, copies=copies) for _ in range(300)]
    for name in ("image_to_text_R@1", "text_to_image_R@1", "text_to_image_R@5"):
        assert np.mean([found[name] for found in rounds]) == pytest.approx(expected[name], abs=0.02)


def test_a_perfect_model_scores_all_with_every_caption_a_record_of_its_own() -> None:
    """Five records per picture, as a table with one row per caption was read; captions shared between pictures."""
    pictures = torch.arange(8).repeat_interleave(5)
    words = torch.arange(40)
    words[7], words[23] = words[30], words[0]
    points = torch.eye(8)[pictures]
    texts = points.clone()
    texts[7], texts[23] = texts[30], texts[0]
    owners = torch.arange(40)
    assert retrieval(points, texts, dot, owners)["text_to_image_R@1"] == 0.0
    # a caption of two pictures lies between them: the model cannot know which is meant
    texts[7] = texts[30] = torch.eye(8)[1] + torch.eye(8)[6]
    texts[23] = texts[0] = torch.eye(8)[4] + torch.eye(8)[0]
    found = retrieval(points, texts, dot, owners, copies=Copies(pictures, words))
    assert {found[f"{way}_R@{k}"] for way in ("image_to_text", "text_to_image") for k in (1, 5, 10)} == {1.0}


def test_no_copies_change_nothing() -> None:
    owners = torch.randint(0, 12, (30,))
    none = Copies(torch.arange(12), torch.arange(30))
    images, texts = torch.randn(12, 3), torch.randn(30, 3)
    assert not none
    assert retrieval(images, texts, dot, owners, copies=none) == retrieval(images, texts, dot, owners)
    assert retrieval_chance(12, owners, copies=none) == retrieval_chance(12, owners)


def test_equal_captions_of_all_take_a_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All captions equal: every text matches every image, and no table of all pairs is made."""
    monkeypatch.setattr(module, "LARGEST_BLOCK", 4000)
    same = Copies(torch.arange(400), torch.zeros(400, dtype=torch.long))
    found = retrieval(torch.randn(400, 2), torch.randn(400, 2), dot, torch.arange(400), copies=same)
    assert found["image_to_text_R@1"] == found["text_to_image_R@1"] == 1.0
    assert Matches(torch.arange(400), 400, same).block(slice(3, 5), by_text=True).shape == (2, 400)


class Digested:
    """Pictures known by digests alone."""

    def __init__(self, pictures: list[bytes], texts: list[tuple[str, ...]]):
        self.pictures, self.texts = pictures, texts

    def __len__(self) -> int:
        return len(self.pictures)

    def pair(self, index: int) -> Pair:
        return Pair(str(index), self.texts[index])

    def picture_digest(self, index: int) -> bytes:
        return self.pictures[index]

    def images(self, indices, size, device="cpu"):
        raise AssertionError("nobody looks at pixels here")


def test_copies_are_found_and_said() -> None:
    source = Digested([b"a", b"b", b"a"], [("A dog.", "a brown dog"), ("a  dog.",), ("a cat",)])
    copies = find_copies(source, captions(source, 0))
    assert copies is not None
    assert copies.images.tolist() == [0, 1, 0]
    assert copies.texts.tolist() == [0, 1, 0, 2]
    assert copies.counted() == (1, 1)
    with pytest.warns(UserWarning, match=r"1 of 3 pictures and 1 of 4 captions are copies"):
        assert counted_copies(source, captions(source, 0), Evaluation()) is not None
    with pytest.warns(UserWarning, match=r"count as misses \(evaluation\.copies\)"):
        assert counted_copies(source, captions(source, 0), Evaluation(copies="misses")) is None
    assert find_copies(subset(source, [0, 1]), captions(subset(source, [0]), 0)) is None
    assert find_copies(subset(source, [2, 0]), captions(subset(source, [2, 0]), 1)) is not None
