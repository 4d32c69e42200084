from __future__ import annotations

import random

import pytest
from scenes_by_hand import scene_of, thing, true_by_trying, wild_scene

from equipoise.data.scenes.language.grammar import DETAILS, state
from equipoise.data.scenes.language.meaning import ANYTHING, Meaning, Phrase, true_of
from equipoise.data.scenes.noise import one_changed

FISH_AND_STAR = scene_of(thing("small solid red fish", 0.2), thing("large striped blue star", 0.8))
FISH, STAR, RED = Phrase(frozenset({"fish"})), Phrase(frozenset({"star"})), Phrase(colours=frozenset({"red"}))


@pytest.mark.parametrize(
    ("meaning", "expected"),
    [
        (Meaning((FISH,)), True),
        (Meaning((FISH, FISH)), False),  # two phrases want two things
        (Meaning((FISH, RED)), False),  # the only red thing is the fish
        (Meaning((RED, STAR)), True),
        (Meaning((FISH, STAR), ((0, "left_of", 1),)), True),
        (Meaning((FISH, STAR), ((0, "right_of", 1),)), False),
        (Meaning((STAR, FISH), ((1, "left_of", 0),)), True),
        (Meaning((FISH, STAR), ((0, "above", 1),)), False),
        (Meaning((ANYTHING, ANYTHING)), True),
        (Meaning((ANYTHING,) * 3), False),
        (Meaning((), count=2), True),
        (Meaning((), count=3), False),
        (Meaning((FISH,), count=1), False),
        (Meaning((Phrase(texture="striped", size="small"),)), False),
        (Meaning((Phrase(shapes=frozenset()),)), False),
    ],
)
def test_truth_of_small_statements(meaning: Meaning, expected: bool) -> None:
    assert true_of(meaning, FISH_AND_STAR) is expected


def test_truth_is_that_of_trying_every_assignment() -> None:
    rng = random.Random(0)
    outcomes = {True: 0, False: 0}
    for _ in range(1500):
        meaning = state(wild_scene(rng), rng, rng.choice(list(DETAILS)))
        if rng.random() < 0.3:
            meaning = one_changed(meaning, rng) or meaning
        scene = wild_scene(rng)
        expected = true_by_trying(meaning, scene)
        assert true_of(meaning, scene) == expected, (meaning, scene)
        outcomes[expected] += 1
    assert min(outcomes.values()) > 100
