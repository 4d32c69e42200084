"""The world keeps its promises over thousands of scenes."""

import math
import subprocess
import sys
from collections import Counter

import pytest

from equipoise.data.scenes.language.vocabulary import BACKGROUNDS, COLOURS, SHAPES, SIZES, TEXTURES
from equipoise.data.scenes.scene import Scene
from equipoise.data.scenes.world import GAP, OPENINGS, TILT, World, sample_scene, split_of
from equipoise.data.splits import SPLITS
from equipoise.types import UserError

WORLD = World()


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [sample_scene(WORLD, 0, "train", i) for i in range(3000)]


@pytest.mark.slow
def test_same_names_give_the_same_scene_in_any_process() -> None:
    code = (
        "from equipoise.data.scenes.world import *; from equipoise.data.splits import SPLITS;"
        "print([repr(sample_scene(World(), 3, s, i)) for s in SPLITS for i in range(5)])"
    )
    here = repr([repr(sample_scene(WORLD, 3, s, i)) for s in SPLITS for i in range(5)])
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_seed_split_and_index_all_matter() -> None:
    keys = [(0, "train", 0), (1, "train", 0), (0, "test", 0), (0, "train", 1)]
    assert len({repr(sample_scene(WORLD, *key)) for key in keys}) == len(keys)


def test_splits_never_share_a_content_across_seeds() -> None:
    world = World(max_things=2)  # few contents: collisions would be certain without the partition
    seen = {
        split: {sample_scene(world, seed, split, i).content() for seed in (0, 1) for i in range(1500)}
        for split in SPLITS
    }
    assert len(seen["train"]) > 1000
    assert seen["train"].isdisjoint(seen["validation"])
    assert seen["train"].isdisjoint(seen["test"])
    assert seen["validation"].isdisjoint(seen["test"])
    assert all(split_of(content) == split for split in SPLITS for content in seen[split])


def test_split_shares() -> None:
    contents = [((shape, colour, texture, size),) for shape in SHAPES for colour in COLOURS
                for texture in TEXTURES for size in SIZES]  # fmt: skip
    shares = Counter(map(split_of, contents))
    for split, expected in zip(SPLITS, (0.8, 0.1, 0.1), strict=True):
        assert shares[split] / len(contents) == pytest.approx(expected, abs=0.02)


def test_counts_follow_the_world_and_everything_is_used(scenes: list[Scene]) -> None:
    counts = Counter(len(scene.things) for scene in scenes)
    assert all(counts[n] / len(scenes) == pytest.approx(0.25, abs=0.03) for n in (1, 2, 3, 4))
    things = [thing for scene in scenes for thing in scene.things]
    assert {t.shape for t in things} == set(SHAPES)
    assert {t.colour for t in things} == set(COLOURS)
    assert {t.texture for t in things} == set(TEXTURES)
    assert {t.size for t in things} == set(SIZES)
    assert {scene.background.kind for scene in scenes} == set(BACKGROUNDS)
    assert {len(sample_scene(World(2, 3), 0, "test", i).things) for i in range(50)} == {2, 3}


def test_things_keep_apart_within_the_image(scenes: list[Scene]) -> None:
    for scene in scenes:
        for i, a in enumerate(scene.things):
            assert a.radius <= a.x <= 1 - a.radius
            assert a.radius <= a.y <= 1 - a.radius
            for b in scene.things[i + 1 :]:
                if b.holder != i:
                    assert math.hypot(a.x - b.x, a.y - b.y) >= a.radius + b.radius + GAP - 1e-9


def test_a_held_thing_fits_the_opening_of_a_large_holder(scenes: list[Scene]) -> None:
    held = [(scene.things[t.holder], t) for scene in scenes for t in scene.things if t.holder is not None]
    assert 0.15 < len(held) / len(scenes) < 0.25
    for holder, inner in held:
        assert holder.size == "large"
        assert inner.size == "small"
        assert holder.shape == "ring" or holder.texture == "outlined"
        apart = math.hypot(inner.x - holder.x, inner.y - holder.y)
        assert apart + inner.radius <= OPENINGS[holder.shape] * holder.radius
        assert inner.radius > 0.06  # still to be seen


def test_sizes_are_never_ambiguous(scenes: list[Scene]) -> None:
    radii = {size: [t.radius for s in scenes for t in s.things if t.size == size] for size in SIZES}
    assert max(radii["small"]) * 1.2 < min(radii["medium"])
    assert max(radii["medium"]) * 1.2 < min(radii["large"])


def test_ordinary_angles_are_small(scenes: list[Scene]) -> None:
    assert max(abs(t.angle) for scene in scenes for t in scene.things) <= TILT


@pytest.mark.parametrize(("least", "most"), [(0, 4), (1, 5), (3, 2)])
def test_impossible_numbers_of_things_are_refused(least: int, most: int) -> None:
    with pytest.raises(UserError, match="min_things <= max_things"):
        World(least, most)


def test_unknown_names_are_refused_with_the_valid_ones() -> None:
    with pytest.raises(UserError, match="none, texture, background, rotation, hue"):
        World(shift="colour")
    with pytest.raises(UserError, match="train, validation, test"):
        sample_scene(WORLD, 0, "dev", 0)


def test_iid_splits_draw_from_the_same_contents() -> None:
    small = World(shapes=("circle", "star"), colours=("red", "blue"), max_things=1, splits="iid")
    drawn = {split: Counter(sample_scene(small, 0, split, i).content() for i in range(400)) for split in SPLITS}
    assert drawn["train"].keys() == drawn["test"].keys() == drawn["validation"].keys()
    assert len(drawn["test"]) == len(small.looks)
    assert min(drawn["test"].values()) > 0.3 * 400 / len(small.looks)  # and as often
    assert sample_scene(small, 0, "test", 3) != sample_scene(small, 0, "train", 3)
    with pytest.raises(UserError, match="splits is 'random'"):
        World(splits="random")
