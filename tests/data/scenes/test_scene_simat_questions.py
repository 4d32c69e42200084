"""SIMAT on scenes: what is asked makes sense, and its oracle is the truth tried out by hand."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from scenes_by_hand import true_by_trying

from equipoise.data.files.simat.images import Cuts, regions_of_pictures
from equipoise.data.files.simat.tables import read_simat
from equipoise.data.files.simat.write import write_simat
from equipoise.data.scenes.corpus import Scenes
from equipoise.data.scenes.language.meaning import true_of
from equipoise.data.scenes.language.parser import parse
from equipoise.data.scenes.language.vocabulary import SIZES
from equipoise.data.scenes.simat_questions import SimatSettings, scene_transformations
from equipoise.data.scenes.world import split_of
from equipoise.evaluation.simat.score import chance
from equipoise.evaluation.simat.sweep import SimatPoints, named, sweep
from equipoise.types import UserError

CORPUS = Scenes.Config()


@pytest.fixture(scope="module")
def made():
    return scene_transformations(CORPUS, SimatSettings(sources=30, seed=1))


def test_one_word_is_replaced_and_all_else_stays(made):
    asked, gallery = made
    assert set(asked.fields) == {"colour", "shape", "relation"}
    for one in asked.asked:
        said, wanted = parse(gallery.captions[one.source]), parse(asked.captions[one.caption])
        scene = gallery.scenes[one.source]
        assert true_of(said, scene)
        assert not true_of(wanted, scene)
        if one.field == "relation":
            assert (said.phrases, len(said.relations)) == (wanted.phrases, 1)
            assert parse(f"a fish {one.value} a star").relations == said.relations
            assert parse(f"a fish {one.target} a star").relations == wanted.relations
        else:
            assert said.relations == wanted.relations
            differing = [(a, b) for a, b in zip(said.phrases, wanted.phrases, strict=True) if a != b]
            assert len(differing) == 1
            assert gallery.captions[one.source].split().count(one.value) == 1  # it is clear what is meant
            things = [getattr(thing, one.field) for thing in scene.things]
            assert things.count(one.value) == 1
            assert one.target not in things


def test_the_oracle_is_the_truth_and_some_picture_is_right(made):
    asked, gallery = made
    for caption, text in enumerate(asked.captions):
        truth = [true_by_trying(parse(text), scene) for scene in gallery.scenes]
        assert asked.oracle.scores[:, caption].tolist() == truth
    right = asked.oracle.scores
    assert all(right[:, one.caption].any() and not right[one.source, one.caption] for one in asked.asked)


def test_nothing_was_trained_on_and_dev_and_test_have_their_own_sources(made):
    asked, gallery = made
    assert all(split_of(scene.content()) != "train" for scene in gallery.scenes)
    assert len(set(asked.keys)) == len(asked.keys) == len(gallery)
    for one in asked.asked:
        key = asked.keys[one.source]
        assert key.startswith("test-" if one.is_test else "validation-")
        assert gallery.scenes[one.source] == CORPUS.build(key.split("-")[0]).scene(int(key.split("-")[1]))
    assert {one.source for one in asked.of("dev")}.isdisjoint(one.source for one in asked.of("test"))


def test_the_same_seed_makes_the_same(made):
    asked, gallery = made
    again, scenes = scene_transformations(CORPUS, SimatSettings(sources=30, seed=1))
    assert again.asked == asked.asked
    assert scenes == gallery
    assert torch.equal(again.oracle.scores, asked.oracle.scores)
    other, _ = scene_transformations(CORPUS, SimatSettings(sources=30, seed=2))
    assert other.asked != asked.asked


@pytest.mark.parametrize(
    "corpus",
    [
        Scenes.Config(min_things=4, zoom=0.8),
        Scenes.Config(max_things=1, shift="texture"),
        Scenes.Config(min_things=2, max_things=2, shift="hue", textures=("solid", "striped")),
    ],
)
def test_any_world_will_do(corpus):
    asked, gallery = scene_transformations(corpus, SimatSettings(sources=4))
    assert ("relation" in asked.fields) == (corpus.max_things > 1)
    assert {len(scene.things) for scene in gallery.scenes} <= set(range(corpus.min_things, corpus.max_things + 1))
    shown = gallery.images(range(3), 16)
    assert (shown.shape, shown.dtype) == ((3, 3, 16, 16), torch.uint8)


def test_a_world_without_choice_is_refused():
    looks = product(CORPUS.textures, SIZES)
    held_out = {look: split_of((("circle", "yellow", *look),)) for look in looks}
    assert "validation" in held_out.values()  # there are scenes, but nothing in them could be otherwise
    with pytest.raises(UserError, match="only 0 validation scenes have a word to replace, not 3"):
        scene_transformations(
            Scenes.Config(max_things=1, shapes=("circle",), colours=("yellow",)), SimatSettings(sources=3)
        )
    with pytest.raises(UserError, match="sources is 0"):
        SimatSettings(sources=0)


def attribute_points(gallery, words) -> SimatPoints:
    """A "model" whose arithmetic is exact: one axis for each shape and colour."""
    axes = {word: number for number, word in enumerate(words)}
    pictures = torch.zeros(len(gallery), len(axes))
    for row, scene in zip(pictures, gallery.scenes, strict=True):
        for thing in scene.things:
            row[[axes[word] for word in (thing.shape, thing.colour) if word in axes]] += 1
    return SimatPoints(pictures, dict(zip(words, torch.eye(len(axes)), strict=True)))


def test_a_perfect_model_scores_100_and_a_random_one_what_chance_says():
    asked, gallery = scene_transformations(Scenes.Config(max_things=1), SimatSettings(sources=60))
    words = [*CORPUS.shapes, *CORPUS.colours]
    assert set(asked.words) <= set(words)
    numbers = named(sweep(attribute_points(gallery, words), asked, (0.0, 1.0)))
    assert (numbers["simat"], numbers["simat_dev_max"], numbers["simat_lambda"]) == (100, 100, 1)
    ignoring = named(sweep(attribute_points(gallery, words), asked, (0.0,)))
    assert ignoring["simat"] < 5  # without the words one finds the same things again
    make = torch.Generator().manual_seed(0)
    scores = []
    for _ in range(40):
        points = torch.nn.functional.normalize(torch.randn(len(gallery) + len(words), 64, generator=make), dim=1)
        at_random = SimatPoints(points[: len(gallery)], dict(zip(words, points[len(gallery) :], strict=True)))
        scores.append(sweep(at_random, asked, (1.0,))["test"].scores[0]["all"].score)
    expected = chance(asked.of("test"), asked.oracle)["all"].score
    mean = torch.tensor(scores)
    assert abs(mean.mean() - expected) < 4 * mean.std() / 40**0.5
    assert 0 < expected < 5


def test_written_as_simats_files_it_reads_back_the_same(made, tmp_path):
    asked, gallery = made
    folder = tmp_path / "simat"
    done = []
    write_simat(asked, gallery, folder, 24, done.append)
    assert done[-1] == len(gallery)
    read = read_simat(folder)
    assert read.asked == asked.asked
    assert (read.captions, read.triplets) == (asked.captions, asked.triplets)
    assert torch.equal(read.oracle.scores, asked.oracle.scores)
    source = Cuts(regions_of_pictures(folder, folder / "images", read.keys), read.keys, read.captions)
    assert torch.equal(source.images(range(len(gallery)), 24), gallery.images(range(len(gallery)), 24))
    with pytest.raises(UserError, match="is there already"):
        write_simat(asked, gallery, folder, 24)
    with pytest.raises(UserError, match='replaces a shape; "exact" is for subj, rel and obj alone'):
        read_simat(folder, "exact")
