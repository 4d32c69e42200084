from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from scenes_by_hand import scene_of, thing, true_by_trying, wild_scene

from equipoise.data.scenes.language.grammar import DETAILS, state
from equipoise.data.scenes.language.meaning import Meaning
from equipoise.data.scenes.language.parser import matches, parse
from equipoise.data.scenes.language.vocabulary import RELATIONS
from equipoise.data.scenes.noise import MOVE, Noise, falsified, jittered, one_changed
from equipoise.data.scenes.world import World, sample_scene
from equipoise.types import UserError


def differences(one: Meaning, other: Meaning) -> list[str]:
    """The attributes and relations in which two statements of the same build differ."""
    names = ("shapes", "colours", "texture", "size")
    pairs = zip(one.phrases, other.phrases, strict=True)
    attributes = [name for a, b in pairs for name in names if getattr(a, name) != getattr(b, name)]
    return attributes + [r[1] for r, s in zip(one.relations, other.relations, strict=True) if r != s]


def test_one_attribute_or_relation_is_changed() -> None:
    rng = random.Random(0)
    kinds = Counter[str]()
    for _ in range(2000):
        meaning = state(wild_scene(rng), rng, rng.choice(list(DETAILS)))
        changed = one_changed(meaning, rng)
        if changed is None:
            assert all(p == type(p)() for p in meaning.phrases)
            continue
        found = differences(meaning, changed)
        assert len(set(found)) == 1
        assert len(found) == 1 or len(set(meaning.phrases)) == 1
        kinds.update(found)
    assert {"shapes", "colours", "texture", "size"} < set(kinds)
    assert set(kinds) & set(RELATIONS)


@pytest.mark.parametrize("detail", DETAILS)
def test_falsified_captions_are_false(detail: str) -> None:
    rng = random.Random(1)
    levels = Counter[str]()
    for scene in [wild_scene(rng) for _ in range(300)] + [sample_scene(World(), 0, "train", i) for i in range(300)]:
        caption = falsified(scene, rng, detail)
        assert parse(caption.text) == caption.meaning
        assert not true_by_trying(caption.meaning, scene)
        levels[caption.detail] += 1
    assert levels[detail] > 590  # hardly ever has it to say more in order to be false


def test_a_near_duplicate_says_the_same_and_stays_in_the_picture() -> None:
    rng = random.Random(2)
    for index in range(200):
        scene = sample_scene(World(), 0, "train", index)
        moved = jittered(scene, rng)
        assert moved != scene
        assert moved.content() == scene.content()
        assert moved.background == scene.background
        for a, b in zip(scene.things, moved.things, strict=True):
            assert abs(a.x - b.x) <= MOVE
            assert abs(a.y - b.y) <= MOVE
            assert min(b.x - b.radius, b.y - b.radius) >= 0
            assert max(b.x + b.radius, b.y + b.radius) <= 1
            assert replace(b, x=a.x, y=a.y, tint=a.tint) == a


def test_shares_are_met_in_expectation() -> None:
    noise, rng = Noise(shuffled=0.3, wrong_attribute=0.2, near_duplicates=0.1), random.Random(3)
    kinds = Counter(noise.kind(rng) for _ in range(20_000))
    for name, share in (("shuffled", 0.3), ("wrong_attribute", 0.2), ("near_duplicates", 0.1), ("none", 0.4)):
        assert kinds[name] / 20_000 == pytest.approx(share, abs=0.015)
    assert Noise(shuffled=1.0).kind(rng) == "shuffled"
    assert Noise().kind(rng) == "none"


@pytest.mark.parametrize("shares", [{"shuffled": -0.1}, {"wrong_attribute": 1.5}, {"near_duplicates": float("nan")}])
def test_a_share_beyond_its_range_is_refused_by_name(shares: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(shares))):
        Noise(**shares)


def test_shares_beyond_the_whole_are_refused() -> None:
    Noise(0.5, 0.3, 0.2)
    with pytest.raises(UserError, match="add up to more than 1"):
        Noise(0.5, 0.4, 0.2)


def test_a_caption_that_only_counts_gives_way_to_one_that_can_be_false() -> None:
    scene = scene_of(thing("medium solid red arrow"))
    assert not any(matches(scene, falsified(scene, random.Random(i), "abstract").text) for i in range(100))
