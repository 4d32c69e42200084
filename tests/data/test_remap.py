"""A subset does what its source does, under other numbers."""

from __future__ import annotations

import numpy as np
import torch

from equipoise.data.batches import Batches
from equipoise.data.features.source import FeatureFiles
from equipoise.data.remap import subset, view
from equipoise.data.source import CroppingSource, FeatureSource, JudgedSource

CHOSEN = [5, 3, 11, 0, 7, 8]


def test_scenes(scenes, tokens, tiny):
    some = subset(scenes, CHOSEN)
    assert isinstance(some, JudgedSource)
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
    assert isinstance(some, FeatureSource)
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
    swapped = view(whole, [0, 1, 2, 3], [1, 0, 2, 3])
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
    assert isinstance(some, CroppingSource)
    assert some.max_bad == whole.max_bad

    def boxes(sizes):
        return torch.tensor([[0.0, 0, 16, 16]]).expand(len(sizes), 4)

    assert torch.equal(some.crops([0, 2], 8, boxes), whole.crops([5, 11], 8, boxes))
