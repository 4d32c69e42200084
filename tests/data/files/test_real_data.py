"""Real data, where it is: set EQUIPOISE_TEST_DATA to the folder, or keep it at ../shared/data beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from equipoise.data.files import ClassShards, Mixture, Shards
from equipoise.data.files.check import check

FOLDER = Path(os.environ.get("EQUIPOISE_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))


def needs(name: str) -> pytest.MarkDecorator:
    path = FOLDER / name
    return pytest.mark.skipif(not path.is_dir(), reason=f"{path} is not there: reading real data is NOT tested")


@needs("flickr8k_96")
def test_flickr8k():
    settings = Shards(train="train-{000..002}.tar", validation="dev-*.tar", root=str(FOLDER / "flickr8k_96"))
    train, dev = settings.build("train"), settings.build("validation")
    assert (len(train), len(dev)) == (6000, 1000)
    assert {len(dev.pair(index).captions) for index in range(1000)} == {5}
    assert dev.pair(0).key == "006000"
    images = [dev.open(index).image for index in range(4)]
    whole = [image.crops([(0, 0, image.width, image.height)], 96)[0] for image in images]
    assert torch.equal(torch.stack(whole), dev.images(range(4), 96))


@needs("coco_mini_224")
def test_coco_and_its_check():
    records = Shards().records((str(FOLDER / "coco_mini_224"),))
    found = check(records).summary()
    assert (found["usable"], found["unusable"]) == (159, 0)
    assert found["height"]["least"] == found["width"]["least"] == 224
    assert "flickr" in str(records.pair(0).truth)


@needs("cifar10_test2k")
def test_cifar10():
    source = ClassShards(test="test-000.tar", root=str(FOLDER / "cifar10_test2k")).build("test")
    labels = [source.pair(index).label for index in range(len(source))]
    assert {name: labels.count(name) for name in source.class_names} == dict.fromkeys(source.class_names, 200)
    assert len(source.templates) == 18


@needs("fashion_products_64")
@needs("flickr8k_96")
@pytest.mark.filterwarnings("ignore:data.validation is not given")
def test_a_mixture_of_photos_and_products():
    photos = Shards(train="train-*.tar", validation="dev-000.tar", root=str(FOLDER / "flickr8k_96"))
    shop = Shards(train="train-000.tar", root=str(FOLDER / "fashion_products_64"))
    source = Mixture.Config({"photos": photos, "shop": shop}, (1.0, 1.0)).build("train")
    assert abs(source.shares()["photos"] - 0.5) < 0.01
    assert source.pair(1).truth or source.pair(0).truth  # side data of the shop
    assert source.images([0, 1, 2], 64).shape == (3, 3, 64, 64)


@pytest.mark.parametrize("name", ["emoji_64", "openclipart_96", "tuxpaint_stamps_96"])
def test_other_sets_are_read_without_a_fault(name):
    if not (FOLDER / name).is_dir():
        pytest.skip(f"{FOLDER / name} is not there: reading real data is NOT tested")
    records = Shards().records((str(FOLDER / name),))
    assert len(records) > 900
    assert not records.faults
