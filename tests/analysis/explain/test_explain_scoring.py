"""Measures of explanations, by hand and by loops; what guessing scores; a perfect map."""

from __future__ import annotations

import pytest
import torch

from equipoise.analysis.explain.scoring import word_hits
from equipoise.analysis.explain.scoring.decoupling import decoupling
from equipoise.analysis.explain.scoring.deletion import deletion_insertion
from equipoise.analysis.explain.scoring.pointing import covered, energy, pointing
from equipoise.analysis.explain.scoring.scenes import questions
from equipoise.data.scenes import Scenes
from equipoise.types import UserError


def random_boxes(count: int) -> torch.Tensor:
    ends = torch.rand(count, 2, 2, generator=torch.Generator().manual_seed(0)).double().sort(1).values
    return ends.flatten(1)


def test_covered_area_is_that_of_many_points() -> None:
    boxes = random_boxes(5)
    fine = (torch.arange(400) + 0.5) / 400
    for share, (x0, y0, x1, y1) in zip(covered(boxes, 4), boxes.tolist(), strict=True):
        inside = ((fine >= y0) & (fine < y1))[:, None] & ((fine >= x0) & (fine < x1))
        counted = inside.double().unflatten(0, (4, 100)).unflatten(2, (4, 100)).mean((1, 3))
        assert torch.allclose(share, counted, atol=0.03)


def test_pointing_and_energy_by_hand() -> None:
    box = torch.tensor([[0.5, 0.0, 0.7, 0.2]])  # in the upper row, the third place of four
    maps = torch.zeros(1, 4, 4)
    maps[0, 0, 2], maps[0, 3, 3] = 3.0, 1.0
    assert pointing(maps, box).item() == 1
    assert energy(maps, box).item() == pytest.approx(0.75 * 0.8 * 0.8)
    maps[0, 3, 3] = 9.0
    assert pointing(maps, box).item() == 0


def test_a_map_without_preference_scores_what_guessing_does() -> None:
    boxes = random_boxes(50)
    for empty in (torch.zeros(50, 4, 4), torch.ones(50, 4, 4)):
        touched = (covered(boxes, 4) > 0).double().mean((1, 2))
        assert torch.allclose(pointing(empty.double(), boxes).double(), touched)
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        assert torch.allclose(energy(empty.double(), boxes), area)


def test_deletion_and_insertion_follow_relevance() -> None:
    """A score that is the sum of four places' own numbers: every curve is known."""
    images = torch.zeros(1, 3, 4, 4)
    values = torch.tensor([[8.0, 4.0], [2.0, 1.0]])
    images[0, 0] = values.repeat_interleave(2, 0).repeat_interleave(2, 1) / 4

    def score(pictures: torch.Tensor) -> torch.Tensor:
        return pictures.sum((1, 2, 3))

    draw = torch.Generator().manual_seed(0)
    best = deletion_insertion(images, values[None], score, draw)
    assert [one.item() for one in best] == pytest.approx([(7 + 3 + 1) / 3, (8 + 12 + 14) / 3, 15, 0])
    worst = deletion_insertion(images, -values[None], score, draw)
    assert [one.item() for one in worst[:2]] == pytest.approx([(14 + 12 + 8) / 3, (1 + 3 + 7) / 3])


def test_decoupling_from_the_same_map_to_none_in_common() -> None:
    one = torch.rand(1, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    assert decoupling(one.expand(2, 3, 3, 3)).tolist() == pytest.approx([0, 0], abs=1e-6)
    apart = torch.eye(9)[:4].view(1, 4, 3, 3)
    assert decoupling(apart).item() == 1
    maps = torch.rand(1, 3, 3, 3, generator=torch.Generator().manual_seed(1))
    pairs = [(0, 1), (0, 2), (1, 2)]
    cosines = [torch.cosine_similarity(maps[0, a].flatten(), maps[0, b].flatten(), 0).item() for a, b in pairs]
    assert decoupling(maps).item() == pytest.approx(1 - sum(cosines) / 3)
    assert torch.isfinite(decoupling(torch.zeros(1, 2, 3, 3))).all()


def test_words_that_say_something() -> None:
    text = "a picture of a red fish"
    spans = [(0, 1), (2, 9), (10, 12), (13, 14), (15, 18), (19, 23)]
    words = dict(zip(spans, (0.1, 0.1, 0.1, 0.1, 0.2, 0.4), strict=True))
    assert word_hits.hit(text, words) == 1
    assert word_hits.energy(text, words) == pytest.approx(0.6)
    assert word_hits.hit(text, dict.fromkeys(spans, 0.0)) == pytest.approx(2 / 6)
    assert word_hits.energy(text, dict.fromkeys(spans, 0.0)) == pytest.approx(2 / 6)
    assert word_hits.without(text, (15, 18)) == "a picture of a fish"


def test_questions_name_one_thing_of_several() -> None:
    source = Scenes.Config(test_size=40, max_things=3).build("test")
    asked = questions(source, 30)
    assert 20 < len(asked) <= 30
    for one in asked:
        pair = source.pair(one.image)
        assert len(pair.boxes) > 1
        assert one.box in pair.boxes
        assert one.name != one.other
        assert one.name in one.sentence
        assert one.other in one.sentence
    with pytest.raises(UserError, match="max_things"):
        questions(Scenes.Config(test_size=5, max_things=1).build("test"), 10)
