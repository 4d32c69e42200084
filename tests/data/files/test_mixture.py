"""Mixtures: shares, order, recipes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from some_files import records, write_tar

from equipoise.config import dump, load_run, load_stored
from equipoise.data.files import Mixture, Shards
from equipoise.data.files.mixture import MOST_REPEATS, NEAR_ENOUGH, repeats
from equipoise.types import UserError


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, Shards]:
    write_tar(tmp_path / "few.tar", records(6))
    write_tar(tmp_path / "many.tar", records(24, start=100))
    return {name: Shards(train=f"{name}.tar", validation=f"{name}.tar", root=str(tmp_path)) for name in ("few", "many")}


def keys(source: Mixture) -> list[str]:
    return [source.pair(index).key for index in range(len(source))]


def test_without_weights_every_record_comes_once(parts):
    source = Mixture.Config(parts).build("train")
    assert len(source) == 30
    assert set(Counter(keys(source)).values()) == {1}
    assert source.shares() == {"few": 0.2, "many": 0.8}


def test_weights_are_shares_and_records_of_a_part_are_equal(parts):
    source = Mixture.Config(parts, (1.0, 1.0)).build("train")
    assert source.shares() == {"few": 0.5, "many": 0.5}
    counts = Counter(keys(source))
    assert {counts[key] for key in counts if key < "00100"} == {4}
    assert {counts[key] for key in counts if key >= "00100"} == {1}
    assert len(Mixture.Config(parts, (1.0, 1.0)).build("validation")) == 30


def test_any_stretch_is_like_the_whole(parts):
    source = Mixture.Config(parts).build("train")
    for start in range(0, 30, 5):
        assert sum(key < "00100" for key in keys(source)[start : start + 5]) == 1


def test_pictures_are_those_of_the_parts(parts):
    source = Mixture.Config(parts).build("train")
    few, many = (part.build("train") for part in parts.values())
    indices = [7, 2, 21, 3]
    images = source.images(indices, 12)
    for place, index in enumerate(indices):
        key = source.pair(index).key
        part, number = (few, int(key)) if key < "00100" else (many, int(key) - 100)
        assert torch.equal(images[place], part.images([number], 12)[0])
        assert source.open(index) == part.open(number)


@given(
    st.lists(st.tuples(st.integers(1, 10_000), st.floats(0.5, 2.0)), min_size=1, max_size=4).filter(
        lambda parts: max(w / n for n, w in parts) <= 8 * min(w / n for n, w in parts)
    )
)
def test_repeats_come_near_the_weights(parts):
    sizes, weights = zip(*parts, strict=True)
    times = repeats(sizes, weights)
    assert min(times) >= 1
    assert max(times) <= MOST_REPEATS
    got = np.array(times) * sizes / np.dot(times, sizes)
    wanted = np.array(weights) / sum(weights)
    np.testing.assert_allclose(got, wanted, rtol=max(0.15, 2.5 * NEAR_ENOUGH))


def test_weights_without_sense(parts):
    for weights in ((1.0,), (1.0, 0.0), (1.0, -1.0)):
        with pytest.raises(UserError, match="give one number above 0 for each of the parts few, many"):
            Mixture.Config(parts, weights)
    with pytest.raises(UserError, match=r"data\.parts is empty"):
        Mixture.Config().build("train")
    with pytest.raises(UserError, match="ask for 400 repeats of one part"):
        Mixture.Config(parts, (100.0, 1.0)).build("train")


def test_in_a_recipe(tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        '[data]\nname = "mixture"\nweights = [2, 1]\n'
        '[data.parts.photos]\ntrain = ["a.tar", "b.tar"]\n'
        '[data.parts.shop]\nname = "table"\ntrain = "shop.csv"\n'
    )
    loaded = load_run(recipe, ["data.parts.shop.captions=text"])
    data = loaded.run.data
    assert list(data.parts) == ["photos", "shop"]
    assert data.parts["photos"] == Shards(train=("a.tar", "b.tar"))
    assert data.parts["shop"].captions == "text"
    stored = tmp_path / "config.toml"
    stored.write_text(dump(loaded.table))
    assert load_stored(stored) == loaded
    with pytest.raises(UserError, match=r'unknown key "data\.parts\.shop\.captoins".*"captions"'):
        load_run(recipe, ["data.parts.shop.captoins=text"])
    with pytest.raises(UserError, match=r'unknown choice "mixture" for "data\.parts.shop"'):
        load_run(recipe, ["data.parts.shop.name=mixture"])
