from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from scenes_by_hand import scene_of, thing, true_by_trying, wild_scene

from equipoise.data.scenes.language.grammar import DETAILS, describe
from equipoise.data.scenes.language.naming import plural
from equipoise.data.scenes.language.relations import spoken_relation
from equipoise.data.scenes.world import World, sample_scene
from equipoise.types import UserError

PAIR = scene_of(thing("small solid red fish", 0.2, 0.4), thing("large striped blue star", 0.8, 0.5))
NESTED = scene_of(thing("large outlined blue circle"), thing("small solid red fish", holder=0))


def captions(scene, detail: str, number: int = 200) -> list[str]:
    return [describe(scene, random.Random(i), detail).text for i in range(number)]


@pytest.mark.parametrize("detail", DETAILS)
def test_captions_are_true_of_their_scene(detail: str) -> None:
    rng = random.Random(1)
    for scene in [wild_scene(rng) for _ in range(500)] + [sample_scene(World(), 0, "train", i) for i in range(500)]:
        caption = describe(scene, rng, detail)
        assert true_by_trying(caption.meaning, scene), (caption, scene)


def test_a_complete_caption_says_everything() -> None:
    for scene in (sample_scene(World(), 1, "test", i) for i in range(300)):
        meaning = describe(scene, random.Random(2), "complete").meaning
        said = sorted((*p.shapes, *p.colours, p.texture, p.size) for p in meaning.phrases)
        assert tuple(said) == scene.content()
        linked = {i for a, _, b in meaning.relations for i in (a, b)}
        assert len(scene.things) == 1 or linked == set(range(len(scene.things)))


def test_the_examples_of_the_design() -> None:
    assert "a small solid red fish left of a large striped blue star" in captions(PAIR, "complete", 2000)
    assert {"a fish", "a red fish", "a striped star", "something blue"} <= set(captions(PAIR, "partial", 1000))
    assert {"two things, one of them living", "something cool-coloured", "a living thing"} <= set(
        captions(PAIR, "abstract", 1000)
    )


def test_a_thing_inside_another_is_said_to_be_inside_it() -> None:
    assert all(re.search("inside|within|around|surrounding", text) for text in captions(NESTED, "complete"))


def test_relations_go_along_the_longer_axis() -> None:
    scene = scene_of(thing("small solid red fish", 0.2, 0.2), thing("small solid blue star", 0.5, 0.9))
    assert scene.holds(0, "left_of", 1)
    assert spoken_relation(scene, 0, 1) == "above"
    assert spoken_relation(scene, 1, 0) == "below"
    assert spoken_relation(NESTED, 1, 0) == "inside"
    assert spoken_relation(NESTED, 0, 1) == "around"
    same_place = scene_of(thing("small solid red fish"), thing("small solid blue star"))
    assert spoken_relation(same_place, 0, 1) is None


def test_articles_and_plurals_are_right() -> None:
    rng = random.Random(3)
    words = Counter[str]()
    for _ in range(3000):
        text = describe(wild_scene(rng), rng, rng.choice(list(DETAILS))).text
        assert not re.search(
            r"\ba [aeiou]|\ban [^aeiou]|  | ,|,$|\bfishs|fishes|boxs|crosss|there is (two|three|four)", text
        )
        words.update(text.split())
    assert {"an", "things", "another", "which", "something"} <= set(words)


@pytest.mark.parametrize(
    ("one", "many"),
    [("star", "stars"), ("box", "boxes"), ("cross", "crosses"), ("fish", "fish"), ("rhombus", "rhombuses")],
)
def test_plural(one: str, many: str) -> None:
    assert plural(one) == many


def test_alike_things_are_counted_or_called_another() -> None:
    twins = scene_of(thing("small solid red star", 0.2), thing("small solid red star", 0.8))
    assert all(" another " in text for text in captions(twins, "complete"))
    assert "two stars" in captions(twins, "partial", 1000)
    assert "two things, both of them warm-coloured" in captions(twins, "abstract", 2000)


def test_an_unnamed_texture_is_never_said() -> None:
    for scene in (sample_scene(World(shift="texture"), 0, "test", i) for i in range(100)):
        for detail in DETAILS:
            text = describe(scene, random.Random(0), detail).text
            assert "checked" not in text
            assert "zigzag" not in text


def test_an_unknown_detail_is_refused() -> None:
    with pytest.raises(UserError, match=r'"thorough".*complete, partial, abstract'):
        describe(PAIR, random.Random(0), "thorough")
