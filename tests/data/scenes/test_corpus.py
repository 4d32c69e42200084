from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
import torch

from equipoise.data.scenes import corpus
from equipoise.data.scenes.corpus import Scenes
from equipoise.data.scenes.detector import SceneDetector
from equipoise.data.scenes.language.parser import matches, parse
from equipoise.data.scenes.noise import Noise
from equipoise.data.scenes.rendering.render import render
from equipoise.data.source import is_judged, is_labelled
from equipoise.types import UserError

SMALL = Scenes.Config(train_size=300, validation_size=60, test_size=60)
NOISY = Scenes.Config(train_size=600, noise=Noise(shuffled=0.25, wrong_attribute=0.25, near_duplicates=0.25))


def test_it_is_a_judged_and_labelled_source() -> None:
    scenes = SMALL.build("test")
    assert is_judged(scenes)
    assert is_labelled(scenes)
    assert [len(SMALL.build(split)) for split in ("train", "validation", "test")] == [300, 60, 60]


def test_captions_are_true_and_the_first_is_complete() -> None:
    scenes = SMALL.build("train")
    details = Counter[str]()
    for index in range(len(scenes)):
        pair, scene = scenes.pair(index), scenes.scene(index)
        assert len(pair.captions) == 5
        assert all(matches(scene, caption) for caption in pair.captions)
        assert pair.truth["is_clean"]
        assert pair.truth["captions_true"] == [True] * 5
        assert len(parse(pair.captions[0]).phrases) == len(scene.things) == len(pair.tags) == len(pair.boxes)
        assert pair.truth["details"][0] == "complete"
        details.update(pair.truth["details"][1:])
    for detail, weight in zip(SMALL.details, SMALL.detail_weights, strict=True):
        assert details[detail] / details.total() == pytest.approx(weight, abs=0.05)


def test_the_same_whatever_the_order_of_asking() -> None:
    forwards, backwards = NOISY.build("train"), NOISY.build("train")
    order = list(range(0, 600, 7))
    pairs = {index: backwards.pair(index) for index in reversed(order)}
    assert all(forwards.pair(index) == pairs[index] for index in order)
    uncached = Scenes.Config(**{**vars(NOISY), "cache": False}).build("train")
    assert uncached.pair(order[3]) == pairs[order[3]]
    assert torch.equal(uncached.images(order[:4], 16), forwards.images(order[:4], 16))
    assert Scenes.Config(seed=1).build("train").pair(0) != SMALL.build("train").pair(0)


def test_side_data_survives_json() -> None:
    for pair in map(NOISY.build("train").pair, range(20)):
        graph = pair.truth["scene"]
        assert json.loads(json.dumps(pair.truth)) == pair.truth
        assert len(graph["things"]) == len(pair.tags)
        assert all(name in pair.tags[0] for name in (graph["things"][0]["shape"], graph["things"][0]["colour"]))


def test_noise_is_what_its_record_says() -> None:
    scenes = NOISY.build("train")
    pairs = [scenes.pair(index) for index in range(len(scenes))]
    number = {pair.key: index for index, pair in enumerate(pairs)}
    kinds = Counter(pair.truth["noise"] for pair in pairs)
    assert all(kinds[kind] / len(pairs) == pytest.approx(0.25, abs=0.06) for kind in (*vars(NOISY.noise), "none"))
    for index, pair in enumerate(pairs):
        truth, scene = pair.truth, scenes.scene(index)
        assert truth["captions_true"] == [matches(scene, caption) for caption in pair.captions]
        assert truth["is_clean"] == all(truth["captions_true"]) == (truth["noise"] in ("none", "near_duplicates"))
        if truth["noise"] == "wrong_attribute":
            assert not any(truth["captions_true"])
        if truth["noise"] == "shuffled":
            other = scenes.scene(number[truth["other"]])
            assert all(matches(other, caption) for caption in pair.captions)
            assert not truth["captions_true"][0]
            if pairs[number[truth["other"]]].truth["noise"] == "none":
                assert pairs[number[truth["other"]]].captions == pair.captions
        if truth["noise"] == "near_duplicates":
            assert number[truth["other"]] < index
            assert scenes.scene(number[truth["other"]]).content() == scene.content()


def test_noise_touches_the_training_split_alone() -> None:
    noisy = Scenes.Config(noise=Noise(shuffled=1.0), test_size=30, validation_size=30)
    assert not any(noisy.build("train").pair(index).truth["is_clean"] for index in range(30))
    for split in ("validation", "test"):
        assert [noisy.build(split).pair(i) for i in range(30)] == [SMALL.build(split).pair(i) for i in range(30)]


def test_splits_never_share_a_content() -> None:
    contents = {
        split: {SMALL.build(split).scene(index).content() for index in range(60)}
        for split in ("train", "validation", "test")
    }
    assert not contents["train"] & contents["test"]
    assert not contents["train"] & contents["validation"]
    assert not contents["validation"] & contents["test"]


def test_relevance_is_what_matches_says() -> None:
    scenes = SMALL.build("test")
    captions = [caption for index in range(10) for caption in scenes.pair(index).captions]
    found = scenes.relevance(range(5, 30), captions)
    assert found.tolist() == [[matches(scenes.scene(i), caption) for caption in captions] for i in range(5, 30)]
    with pytest.raises(UserError, match="dinosaur"):
        scenes.relevance([0], ["a dinosaur"])


def test_images_are_those_of_the_scenes_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def counting(scenes, size, device):
        drawn.append(len(scenes))
        return render(scenes, size, device)

    monkeypatch.setattr(corpus, "render", counting)
    scenes = SMALL.build("test")
    first = scenes.images([4, 2, 4], 24)
    assert first.shape == (3, 3, 24, 24)
    assert first.dtype == torch.uint8
    assert torch.equal(first, render([scenes.scene(i) for i in (4, 2, 4)], 24))
    assert torch.equal(scenes.images([2, 5], 24)[0], first[1])
    assert drawn == [2, 1]
    monkeypatch.setattr(corpus, "CACHE_LIMIT", 100)
    large = SMALL.build("test")
    large.images([1], 24)
    large.images([1], 24)
    assert drawn == [2, 1, 1, 1]
    assert scenes.images([], 24).shape == (0, 3, 24, 24)


def test_labels_and_prompts() -> None:
    scenes = Scenes.Config(max_things=1, test_size=40).build("test")
    assert all(scenes.pair(i).label == scenes.scene(i).things[0].shape for i in range(40))
    assert {scenes.pair(i).label for i in range(40)} <= set(scenes.class_names)
    assert scenes.Config(min_things=2).build("test").pair(0).label is None
    for template in scenes.templates:
        for name in scenes.class_names:
            (phrase,) = parse(template.format(name)).phrases
            assert phrase.shapes == {name}


def test_shifted_scenes_keep_their_captions_true() -> None:
    for shift in ("texture", "background", "rotation", "hue"):
        scenes = Scenes.Config(shift=shift, test_size=20).build("test")
        assert all(scenes.pair(i).truth["is_clean"] for i in range(20))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"train_size": 0}, "train_size"),
        ({"captions": 0}, "captions"),
        ({"details": ("thorough",), "detail_weights": (1.0,)}, "thorough"),
        ({"detail_weights": (1.0,)}, "detail_weights"),
        ({"detail_weights": (1.0, -1.0, 1.0)}, "detail_weights"),
        ({"detail_weights": (0.0, 0.0, 0.0)}, "detail_weights"),
        ({"details": (), "detail_weights": ()}, "detail_weights"),
        ({"train_size": 1, "noise": Noise(shuffled=0.1)}, "train_size"),
        ({"max_things": 0}, "max_things"),
        ({"shift": "sideways"}, "sideways"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        Scenes.Config(**settings)


def test_an_unknown_split_or_number_is_refused() -> None:
    with pytest.raises(UserError, match=r'"dev".*train, validation, test'):
        SMALL.build("dev")
    for index in (-1, 60):
        with pytest.raises(IndexError, match="60 scenes"):
            SMALL.build("test").pair(index)


def test_records_without_a_false_caption_elsewhere_say_so() -> None:
    for seed in range(100):  # until the second record repeats the first, whose captions are to be shuffled
        scenes = Scenes.Config(train_size=2, seed=seed, noise=Noise(shuffled=0.5, near_duplicates=0.5)).build("train")
        if scenes.pair(1).truth["noise"] == "near_duplicates" and scenes.noise_kind(0) == "shuffled":
            with pytest.raises(UserError, match="train-0000000 finds no caption"):
                scenes.pair(0)
            return
    pytest.fail("no such corpus was drawn")


def test_who_asks_for_the_same_split_again_gets_what_was_drawn() -> None:
    config = Scenes.Config(train_size=20, seed=7)
    assert config.build("train") is Scenes.Config(train_size=20, seed=7).build("train")
    assert config.build("train") is not config.build("test")
    assert config.build("train") is not replace(config, seed=8).build("train")
    apart = replace(config, cache=False)
    assert apart.build("train") is not apart.build("train")


def test_regions_and_tags_are_the_same_kept_or_not_in_any_order() -> None:
    config = Scenes.Config(train_size=20, seed=7, detector=SceneDetector(regions=2, missed=0.3, confused=0.3))
    kept, fresh = Scenes(config, "train"), Scenes(replace(config, cache=False), "train")
    for asked in ([3, 1, 3], [1, 2], [0, 1, 2, 3]):
        for mine, theirs in zip(kept.regions(asked), fresh.regions(asked), strict=True):
            assert torch.equal(mine, theirs)
        assert [kept.tags(index) for index in asked] == [fresh.tags(index) for index in asked]
