"""Shuffled captions: an exact share, nobody's own, the truth kept, on every kind of source."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equipoise.config import load_run
from equipoise.data.batches import Batches
from equipoise.data.caption_shuffle import Shuffle, shuffled
from equipoise.data.features import FeatureFiles
from equipoise.data.preprocess import Preprocess
from equipoise.data.scenes import Scenes
from equipoise.data.source import Record, can_crop, has_features, makes_batches
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import UserError


@pytest.mark.parametrize(("count", "share"), [(100, 0.4), (7, 0.5), (2, 1.0), (10, 0.05), (5, 0.0)])
def test_the_share_is_exact_and_nobody_keeps_its_own(count, share):
    donors = shuffled(count, share, seed=3)
    moved = donors != torch.arange(count)
    wanted = round(share * count)
    assert int(moved.sum()) == (wanted if wanted > 1 else 0)
    assert sorted(donors.tolist()) == list(range(count))
    assert torch.equal(donors, shuffled(count, share, seed=3))


def test_another_seed_spoils_other_pairs():
    assert not torch.equal(shuffled(100, 0.4, 0), shuffled(100, 0.4, 1))


def test_scenes_keep_their_pictures_and_the_truth_is_told():
    clean = Scenes.Config(train_size=20).build("train")
    noisy, donors = Shuffle(0.5).applied_to(clean), shuffled(20, 0.5, 0)
    spoiled = 0
    for index in range(20):
        donor = int(donors[index])
        pair = noisy.pair(index)
        assert pair.captions == clean.pair(donor).captions
        assert pair.key == clean.pair(index).key
        if donor != index:
            spoiled += 1
            assert not pair.truth["is_clean"]
            assert pair.truth["captions_true"] == [False] * len(pair.captions)
            assert pair.truth["details"] == clean.pair(donor).truth["details"]
            assert (pair.truth["noise"], pair.truth["other"]) == ("shuffled", clean.pair(donor).key)
        else:
            assert pair == clean.pair(index)
    assert spoiled == 10
    assert torch.equal(noisy.images([3, 5], 16), clean.images([3, 5], 16))


def test_features_of_texts_move_and_those_of_images_stay(tmp_path):
    texts = np.arange(10 * 2 * 3, dtype=np.float32).reshape(10, 2, 3)
    np.savez(tmp_path / "f.npz", image=np.arange(40, dtype=np.float32).reshape(10, 4), text=texts)
    clean = FeatureFiles.Config(train=str(tmp_path / "f.npz")).build("train")
    noisy, donors = Shuffle(1.0).applied_to(clean), shuffled(10, 1.0, 0)
    assert has_features(noisy)
    tokens = CaptionTokenizer.from_config(CaptionTokenizer.Config(kind="none"), ())
    batch = Batches(noisy, tokens, Preprocess(), batch_size=10, seed=0).batch(0)
    assert torch.equal(batch.images[:, 0], 4.0 * batch.index)
    owners = (batch.tokens.flatten(1)[:, 0] // 6).long()
    assert torch.equal(owners, donors[batch.index])
    assert not (owners == batch.index).any()
    assert torch.equal(noisy.text_features([4])[0], clean.text_features([int(donors[4])])[0])


class Cropping:
    """The least that a source with pictures of its own sizes is."""

    max_bad = 0.25

    def __len__(self):
        return 4

    def pair(self, index):
        return Scenes.Config(train_size=4).build("train").pair(index)

    def images(self, indices, size, device="cpu"):
        return torch.zeros(len(indices), 3, size, size, dtype=torch.uint8)

    def open(self, index):
        return Record(self.pair(index), f"image {index}")


def test_a_source_that_crops_still_does():
    noisy = Shuffle(1.0).applied_to(Cropping())
    assert can_crop(noisy)
    assert not makes_batches(noisy)
    assert noisy.max_bad == 0.25
    record = noisy.open(0)
    assert record.image == "image 0"
    assert record.pair == noisy.pair(0)
    assert record.pair.captions == Cropping().pair(noisy.text_numbers[0]).captions


def test_nothing_shuffled_is_the_source_itself():
    source = Scenes.Config(train_size=4).build("train")
    assert Shuffle().applied_to(source) is source
    assert Shuffle(0.25).applied_to(source) is source  # one pair alone has nobody to exchange with


def test_a_recipe_shuffles_any_source_and_a_wrong_share_is_refused():
    assert load_run("demo", ["shuffle.share=0.4"]).run.shuffle == Shuffle(0.4)
    with pytest.raises(UserError, match=r"shuffle: share is 1\.5; give a share"):
        load_run("demo", ["shuffle.share=1.5"])
