from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes_by_hand import scene_of, thing, wild_scene

from equipoise.data.scenes.language.grammar import DETAILS, describe, state
from equipoise.data.scenes.language.lexicon import LEXICON
from equipoise.data.scenes.language.meaning import ANYTHING, Meaning, Phrase
from equipoise.data.scenes.language.parser import matches, parse
from equipoise.data.scenes.language.vocabulary import COLOUR_KINDS, SHAPE_KINDS
from equipoise.data.scenes.language.wording import say
from equipoise.data.scenes.noise import one_changed
from equipoise.data.scenes.world import World, sample_scene
from equipoise.types import UserError

FISH, STAR, HEART = (Phrase(frozenset({shape})) for shape in ("fish", "star", "heart"))
RED_FISH = Phrase(frozenset({"fish"}), frozenset({"red"}))
ROUND, WARM = Phrase(SHAPE_KINDS["round"][1]), Phrase(colours=COLOUR_KINDS["warm"][1])


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), detail=st.sampled_from(list(DETAILS)))
def test_what_is_said_of_any_scene_is_read_back(seed: int, detail: str) -> None:
    rng = random.Random(seed)
    caption = describe(wild_scene(rng), rng, detail)
    assert parse(caption.text) == caption.meaning, caption.text


@pytest.mark.slow
def test_what_is_said_of_thousands_of_scenes_is_read_back() -> None:
    for index in range(2000):
        scene, rng = sample_scene(World(), 7, "train", index), random.Random(index)
        for detail in DETAILS:
            caption = describe(scene, rng, detail)
            assert parse(caption.text) == caption.meaning, caption.text
            assert matches(scene, caption.text)


def test_statements_with_a_mistake_are_read_back() -> None:
    rng = random.Random(5)
    for _ in range(1000):
        meaning = one_changed(state(wild_scene(rng), rng, rng.choice(list(DETAILS))), rng)
        if meaning is not None:
            assert parse(say(meaning, rng)) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("A RED Fish.", Meaning((RED_FISH,))),
        ("  the crimson   fish  ", Meaning((RED_FISH,))),
        ("fish", Meaning((FISH,))),
        ("a photo of a fish", Meaning((FISH,))),
        ("there are two fish", Meaning((FISH, FISH))),
        ("two red fish and a star", Meaning((RED_FISH, RED_FISH, STAR))),
        ("a fish, a star, and a heart", Meaning((FISH, STAR, HEART))),
        ("a fish is to the left of a star which is under a heart",
         Meaning((FISH, STAR, HEART), ((0, "left_of", 1), (1, "below", 2)))),
        ("a star with a fish on its left and a heart over it",
         Meaning((STAR, FISH, HEART), ((1, "left_of", 0), (2, "above", 0)))),
        ("a star with a fish to its left, and a heart above a fish",
         Meaning((STAR, FISH, HEART, FISH), ((1, "left_of", 0), (2, "above", 3)))),
        ("a ring around something", Meaning((Phrase(frozenset({"ring"})), ANYTHING), ((0, "around", 1),))),
        ("2 things, one of them round", Meaning((ROUND,), count=2)),
        ("three objects", Meaning((), count=3)),
        ("one thing", Meaning((), count=1)),
        ("three things, all of them warm-coloured", Meaning((WARM,) * 3, count=3)),
        ("three things, two of them red fish", Meaning((RED_FISH,) * 2, count=3)),
        ("two things from the sky", Meaning((Phrase(SHAPE_KINDS["sky"][1]),) * 2)),
        ("a single fish", Meaning((FISH,), count=1)),
        ("something small and striped and a star", Meaning((Phrase(texture="striped", size="small"), STAR))),
        ("a warm-coloured red round thing", Meaning((Phrase(SHAPE_KINDS["round"][1], frozenset({"red"})),))),
    ],
)  # fmt: skip
def test_reading(text: str, meaning: Meaning) -> None:
    assert parse(text) == meaning


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a red dinosaur", '"dinosaur" is not known'),
        ("a red hart", '"hart".*did you mean "heart"'),
        ("", "ends too early"),
        (" . ", "ends too early"),
        ("a red", "ends too early"),
        ("a fish left of", "ends too early"),
        ("a fish a star", '"a" is not expected'),
        ("two fish above a star", '"above" is not expected'),
        ("a fish with a star", "ends too early"),
        ("a single fish above a star", '"above" is not expected'),
        ("two things, one of them", "ends too early"),
        ("two things above a star", '"above" is not expected'),
        ("a small big fish", '"big" says again'),
        ("a fish above it", '"above it" is not expected'),
        ("no fish", '"no" is not known'),
        ("a fish and", "ends too early"),
        ("a fish, which is red", '"," is not expected|"which is"'),
    ],
)
def test_what_cannot_be_read_is_named(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        parse(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(sorted(LEXICON)), max_size=8))
def test_any_heap_of_words_is_read_or_refused(words: list[str]) -> None:
    try:
        meaning = parse(" ".join(words))
    except UserError:
        return
    assert all(0 <= a < len(meaning.phrases) and 0 <= b < len(meaning.phrases) for a, _, b in meaning.relations)


def test_matches_takes_words_or_their_meaning() -> None:
    scene = scene_of(thing("small solid red fish", 0.2), thing("large striped blue star", 0.8))
    assert matches(scene, "a fish left of a star")
    assert not matches(scene, "a fish right of a star")
    assert matches(scene, parse("two things, one of them living"))
