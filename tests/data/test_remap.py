"""A subset does what its source does, under other numbers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise.data.batches import Batches
from equipoise.data.features.source import FeatureFiles
from equipoise.data.remap import RemappedSource, subset
from equipoise.data.source import can_crop, has_features, has_regions, is_judged, is_labelled, makes_batches

CHOSEN = [5, 3, 11, 0, 7, 8]


def test_scenes(scenes, tokens, tiny):
    some = subset(scenes, CHOSEN)
    assert is_judged(some)
    assert [some.pair(i) for i in range(6)] == [scenes.pair(i) for i in CHOSEN]
    assert torch.equal(some.images([2, 0], 16), scenes.images([11, 5], 16))
    captions = [scenes.pair(i).captions[0] for i in range(4)]
    assert np.array_equal(some.relevance([1, 2], captions), scenes.relevance([3, 11], captions))
    batch = next(iter(Batches(some, tokens, tiny.run.preprocess, batch_size=4, seed=0)))
    assert set(batch.index.tolist()) <= set(range(6))


def test_features(tmp_path, tokens):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "f.npz", image=rng.normal(size=(12, 3)), text=rng.normal(size=(12, 2, 4)))
    whole = FeatureFiles([tmp_path / "f.npz"])
    some = subset(whole, CHOSEN)
    assert has_features(some)
    assert (some.image_width, some.text_width, len(some)) == (3, 4, 6)
    assert torch.equal(some.image_features([1, 5])[0], whole.image_features([3, 8])[0])
    assert torch.equal(some.text_features([4])[0], whole.text_features([7])[0])
    batch, same = some.batch([1, 2], [0.0, 0.9], tokens), whole.batch([3, 11], [0.0, 0.9], tokens)
    assert torch.equal(batch.tokens, same.tokens)
    assert batch.index.tolist() == [1, 2]


def test_side_data_of_texts_goes_with_them(tmp_path, tokens):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "f.npz", image=rng.normal(size=(4, 3)), text=rng.normal(size=(4, 4)), captions=list("abcd"))
    whole = FeatureFiles([tmp_path / "f.npz"], guides=True)
    swapped = RemappedSource(whole, [0, 1, 2, 3], [1, 0, 2, 3])
    batch, own = swapped.batch([0, 1, 2], [0.0] * 3, tokens), whole.batch([1, 0, 2], [0.0] * 3, tokens)
    assert torch.equal(batch.side["text_vectors"], batch.tokens)
    assert torch.equal(batch.side["caption"], own.side["caption"])
    assert torch.equal(batch.side["image_vectors"], batch.images)
    assert not torch.equal(batch.side["key"], own.side["key"])


def test_files(tmp_path, scenes):
    from equipoise.data.files.webdataset import Shards
    from equipoise.data.shard_writer import write_shards

    write_shards(scenes, tmp_path, 16, 64, lambda *_: None)
    whole = Shards(train=str(tmp_path / "*.tar"), validation=str(tmp_path / "*.tar")).build("train")
    some = subset(whole, CHOSEN)
    assert can_crop(some)
    assert some.max_bad == whole.max_bad

    for index, number in ((0, 5), (2, 11)):
        assert some.open(index) == whole.open(number)


@pytest.mark.parametrize("name", ["scenes", "features", "files"])
def test_it_offers_what_its_source_offers_and_can_be_pickled(name, sources):
    whole = sources[name]
    some = pickle.loads(pickle.dumps(subset(subset(whole, range(12)), CHOSEN)))
    assert type(some) is RemappedSource
    for offers in (can_crop, is_judged, is_labelled, has_regions, makes_batches, has_features):
        assert offers(some) == offers(whole), offers.__name__
    assert [some.pair(i) for i in range(6)] == [whole.pair(i) for i in CHOSEN]


def test_numbers_of_records_are_small(scenes):
    """A number of either side took 36 bytes as Python's integers; here both sides are one array."""
    some = subset(scenes, range(len(scenes)))
    assert some.image_numbers is some.text_numbers
    assert some.image_numbers.nbytes == len(scenes) <= 256
    drawn = torch.tensor([3, 0])
    assert torch.equal(some.images(drawn, 8), scenes.images([3, 0], 8))
    with pytest.raises(IndexError):
        some.pair(len(scenes))


@pytest.fixture
def sources(tmp_path, scenes):
    from equipoise.data.files import Folders

    np.savez(tmp_path / "f.npz", image=np.zeros((12, 3)), text=np.zeros((12, 4)))
    for number in range(12):
        folder = tmp_path / "pictures" / ("cat" if number % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(folder / f"{number}.png")
    files = Folders(train="pictures", validation="pictures", root=str(tmp_path)).build("train")
    return {"scenes": scenes, "features": FeatureFiles([tmp_path / "f.npz"]), "files": files}
