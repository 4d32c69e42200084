"""Statements of captions judged on scenes; the evaluation of a model that writes them."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from equipoise.config import load_run
from equipoise.data.scenes.language.meaning import true_of
from equipoise.data.scenes.language.parser import parse
from equipoise.data.scenes.scene import Background, Scene, Thing
from equipoise.evaluation.captioning import Captioning, chance_of, read, truth_of
from equipoise.evaluation.captions.statements import Judged, judge
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.settings import Evaluation

BACK = Background("plain", ((0, 0, 0), (0, 0, 0)), 0)
FISH = Thing("fish", "red", "solid", "large", 0.2, 0.5, 0.1)
STAR = Thing("star", "blue", "outlined", "small", 0.8, 0.5, 0.1)
SCENE = Scene((FISH, STAR), BACK)


@pytest.mark.parametrize(
    ("caption", "true", "said", "named"),
    [
        ("a red fish left of a star", 4, 4, 2),
        ("a red fish right of a star", 3, 4, 2),
        ("a green fish left of a star", 3, 4, 1),
        ("a large red fish", 3, 3, 1),
        ("a small blue fish", 2, 3, 0),  # small and blue are true of the star
        ("a tree", 0, 1, 0),
        ("two things", 1, 1, 0),
        ("three things", 0, 1, 0),
        ("something red", 1, 1, 0),
        ("a fish and a fish", 1, 2, 1),
        ("a star and a fish and a tree", 2, 3, 2),
        ("a fish, a star, a tree, a heart, a fish, a star, a fish, a star and a tree", 2, 9, 2),
    ],
)
def test_statements_are_counted(caption, true, said, named):
    assert judge(parse(caption), SCENE) == Judged(true, said, named)


def best_by_hand(caption: str, scene: Scene) -> int:
    """The most true statements over all ways to give phrases things, written out anew."""
    meaning, best = parse(caption), 0
    slots = [*range(len(scene.things)), *[None] * len(meaning.phrases)]
    for chosen in set(itertools.permutations(slots, len(meaning.phrases))):
        true = 0
        for phrase, number in zip(meaning.phrases, chosen, strict=True):
            if number is None:
                continue
            thing = scene.things[number]
            said = [
                phrase.shapes is not None and thing.shape in phrase.shapes,
                phrase.colours is not None and thing.colour in phrase.colours,
                phrase.texture is not None and thing.texture == phrase.texture,
                phrase.size is not None and thing.size == phrase.size,
            ]
            bare = (phrase.shapes, phrase.colours, phrase.texture, phrase.size) == (None,) * 4
            true += sum(said) + bare
        for a, relation, b in meaning.relations:
            if chosen[a] is not None and chosen[b] is not None:
                true += scene.holds(chosen[a], relation, chosen[b])
        best = max(best, true)
    return best + (meaning.count == len(scene.things))


def test_captions_of_scenes_are_wholly_true_and_those_of_others_as_by_hand():
    source = load_run("clip-scenes-gpu", ["data.test_size=40"]).run.data.build("test")
    rng = Random(0)
    for index in range(40):
        scene = source.scene(index)
        for caption in source.pair(index).captions:
            found = judge(parse(caption), scene)
            assert found.true == found.said
            other = source.scene(rng.randrange(40))
            wrong = judge(parse(caption), other)
            assert wrong.true == best_by_hand(caption, other)
            assert (wrong.true == wrong.said) == true_of(parse(caption), other)


def test_shares_are_means_over_captions():
    scenes = [SCENE, Scene((STAR,), BACK)]
    found = truth_of(["a red fish right of a star", "no grammar knows this"], scenes)
    assert found == {
        "caption_statements_true": 0.375, "caption_things_named": 0.5, "caption_true": 0.0, "caption_read": 0.5,
    }  # fmt: skip
    chance = chance_of(["a red fish", "a star"], scenes)
    assert chance["caption_statements_true"] == pytest.approx((0 + 1) / 2)
    assert chance["caption_things_named"] == pytest.approx((0 + 0.5) / 2)


@pytest.mark.parametrize("caption", ["", "the the the", "a fish left of"])
def test_what_cannot_be_read_says_nothing(caption):
    assert read(caption) is None


class Writes:
    """Stands where the encoded data does: captions that were written."""

    settings = Evaluation()

    def __init__(self, source, written):
        self.source, self.written = source, written


def test_perfect_captions_score_perfectly():
    source = load_run("coca-scenes", ["data.test_size=12"]).run.data.build("test")
    encoded: Encoded = Writes(source, [source.pair(index).captions[0] for index in range(12)])  # type: ignore[assignment]
    result = Captioning()(encoded)
    for name in ("Bleu_1", "Bleu_4", "ROUGE_L", "caption_statements_true", "caption_true", "caption_read"):
        assert result.metrics[name] == pytest.approx(1, abs=1e-6)
    assert result.metrics["CIDEr"] > 1
    assert result.chance["caption_statements_true"] < 0.8
    assert result.chance["caption_true"] < 0.5


def test_empty_captions_score_nothing_and_do_no_harm():
    source = load_run("coca-scenes", ["data.test_size=4"]).run.data.build("test")
    result = Captioning()(Writes(source, [""] * 4))  # type: ignore[arg-type]
    assert max(result.metrics.values()) < 1e-3
    lone = load_run("coca-scenes", ["data.test_size=1"]).run.data.build("test")
    assert Captioning()(Writes(lone, ["a fish"])).metrics == {}  # type: ignore[arg-type]
