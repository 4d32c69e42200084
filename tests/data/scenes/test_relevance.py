from __future__ import annotations

import random

import numpy as np
from scenes_by_hand import scene_of, thing, true_by_trying, wild_scene

from equipoise.data.scenes.language.grammar import DETAILS, state
from equipoise.data.scenes.language.meaning import ANYTHING, Meaning
from equipoise.data.scenes.noise import one_changed
from equipoise.data.scenes.relevance import relevance


def test_relevance_is_that_of_trying_every_assignment() -> None:
    rng = random.Random(0)
    scenes = [wild_scene(rng) for _ in range(83)]  # not a multiple of eight
    meanings = [state(rng.choice(scenes), rng, rng.choice(list(DETAILS))) for _ in range(120)]
    meanings += [one_changed(meaning, rng) or meaning for meaning in meanings[:40]]
    meanings += [Meaning(()), Meaning((ANYTHING,) * 4), Meaning((ANYTHING,) * 5), Meaning((), count=9)]
    expected = np.array([[true_by_trying(meaning, scene) for meaning in meanings] for scene in scenes])
    found = relevance(scenes, meanings)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, expected)
    assert 0.05 < expected.mean() < 0.5


def test_relevance_of_nothing_is_empty() -> None:
    scene = scene_of(thing("small solid red fish"))
    assert relevance([], [Meaning(())]).shape == (0, 1)
    assert relevance([scene], []).shape == (1, 0)
