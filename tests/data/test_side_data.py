"""What a batch knows of its samples: fingerprints that tell duplicates, regions and tags of a detector that errs."""

from __future__ import annotations

from random import Random

import pytest
import torch

from equipoise.data.batches import Batches
from equipoise.data.preprocess import Preprocess
from equipoise.data.scenes import Scenes
from equipoise.data.scenes.detector import CELLS, WIDTH, SceneDetector, appearance
from equipoise.data.side_data import fingerprints
from equipoise.types import UserError


def corpus(**detector) -> Scenes:
    return Scenes.Config(train_size=60, max_things=3, detector=SceneDetector(**detector)).build("train")


def test_equal_words_have_equal_numbers():
    found = fingerprints(["a fish", "a star", "a fish", ""])
    assert found[0] == found[2]
    assert len(found.unique()) == 3
    assert found.dtype == torch.int64


def test_batches_tell_captions_keys_and_labels(tokens):
    source = corpus()
    batch = Batches(source, tokens, Preprocess(size=32), batch_size=60, seed=0).batch(0)
    pairs = [source.pair(int(index)) for index in batch.index]
    assert set(batch.side) == {"caption", "key", "label"}
    assert len(batch.side["key"].unique()) == 60
    labels = batch.side["label"].tolist()
    for i, one in enumerate(pairs):
        for j, other in enumerate(pairs):
            alike = i == j or (one.label is not None and one.label == other.label)
            assert (labels[i] == labels[j]) == alike


def test_regions_come_with_batches_and_depend_on_nothing_but_the_sample(tokens):
    source = corpus(regions=2, jitter=0.1, missed=0.2, confused=0.2)
    whole = Batches(source, tokens, Preprocess(size=32), batch_size=20, seed=0).batch(1)
    half = Batches(source, tokens, Preprocess(size=32), batch_size=20, seed=0, share=(1, 2)).batch(1)
    assert whole.side["regions"].shape == (20, 2, WIDTH)
    for name, value in half.side.items():
        torch.testing.assert_close(value, whole.side[name][10:])
    assert whole.side["region_mask"].any(1).all()
    assert (whole.side["regions"][~whole.side["region_mask"]] == 0).all()
    assert whole.side["tags"].shape == (20, tokens.context)


def test_a_detector_without_errors_finds_everything_where_it_is():
    source = corpus(regions=3)
    for index in range(20):
        pair = source.pair(index)
        assert sorted(source.tags(index)) == sorted(pair.tags)
        features, mask = source.regions([index])
        assert int(mask.sum()) == len(pair.boxes)
        corners = {tuple(row[-4:].tolist()) for row in features[0][mask[0]]}
        assert corners == {tuple(torch.tensor(box).tolist()) for box in pair.boxes}


def test_the_dials_turn():
    boxes = [(0.1, 0.1, 0.5, 0.5), (0.6, 0.6, 0.9, 0.8)]
    rng = Random(0)
    assert all(len(SceneDetector(regions=9, missed=1.0).found(boxes, rng)) == 1 for _ in range(20))
    found = [len(SceneDetector(regions=9, missed=0.25).found(boxes, rng)) for _ in range(2000)]
    assert sum(found) / 2000 == pytest.approx(2 * 0.75 + 0.25**2, abs=0.05)
    assert [number for number, _ in SceneDetector(regions=1).found(boxes, rng)] == [0]  # the larger one
    off = [SceneDetector(regions=9, jitter=0.1).found(boxes[:1], rng)[0][1][0] - 0.1 for _ in range(2000)]
    assert torch.tensor(off).std() == pytest.approx(0.1 * 0.4, rel=0.15)
    named = [SceneDetector(confused=0.3).named("right", ["wrong"], rng) for _ in range(2000)]
    assert named.count("wrong") / 2000 == pytest.approx(0.3, abs=0.04)


def test_appearance_is_the_mean_colour_of_cells():
    images = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    images[0, 0, :, 32:] = 255  # the right half is red
    features, mask = appearance(images, [[(0.0, 0.0, 1.0, 1.0), (0.5, 0.0, 1.0, 0.5)]], regions=3)
    assert mask.tolist() == [[True, True, False]]
    red = features[0, :, : CELLS * CELLS].view(3, CELLS, CELLS)
    torch.testing.assert_close(red[0, :, : CELLS // 2], torch.full((CELLS, CELLS // 2), -1.0), rtol=0, atol=1e-5)
    torch.testing.assert_close(red[0, :, CELLS // 2 :], torch.full((CELLS, CELLS // 2), 1.0), rtol=0, atol=1e-5)
    assert red[1, :, 1:].min() > 0.99  # its left edge is blurred by the neighbour
    assert features[0, 1, -4:].tolist() == [0.5, 0.0, 1.0, 0.5]


def test_features_are_of_pixels_never_of_labels():
    """The same picture with every name taken away gives the same features."""
    source = corpus(regions=3)
    boxes = [[box for _, box in source._detected(index)] for index in range(5)]
    torch.testing.assert_close(source.regions(range(5)), appearance(source.images(range(5), 64), boxes, 3))


@pytest.mark.parametrize("settings", [{"regions": -1}, {"missed": 1.5}, {"confused": -0.1}, {"jitter": -1.0}])
def test_bad_dials_get_a_sentence(settings):
    with pytest.raises(UserError, match="must be"):
        SceneDetector(**settings)
