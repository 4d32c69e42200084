"""A record is opened once and decoded once, however many crops are cut from it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
import torch
from some_files import jpeg, records, write_tar

from equipoise.data import jpeg as quick
from equipoise.data.batches import Batches
from equipoise.data.caption_shuffle import Shuffle
from equipoise.data.encoded_image import encoded
from equipoise.data.files import Mixture, Shards
from equipoise.data.preprocess import Preprocess
from equipoise.data.source import IMAGE_PARTNER, IMAGE_VIEW2, TEXT_VIEW2, Source
from equipoise.data.tokenizer import CaptionTokenizer

EVERY = (IMAGE_VIEW2, IMAGE_PARTNER, TEXT_VIEW2)


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    """16 records, the smaller side of whose images has 30 to 42 pixels."""
    write_tar(tmp_path / "a.tar", records(16))
    return Shards(train="a.tar", validation="a.tar", root=str(tmp_path))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts openings of tars and decodings of JPEGs."""
    count, opened, decoded = Counter[str](), os.open, quick.decode

    def counting_open(path: str, *arguments: object, **options: object) -> int:
        count["opens"] += str(path).endswith(".tar")
        return opened(path, *arguments, **options)

    def counting_decode(
        data: bytes, header: quick.JpegHeader, reduction: int = 1, reuse_buffer: bool = False
    ) -> object:
        count["decodes"] += 1
        return decoded(data, header, reduction, reuse_buffer)

    monkeypatch.setattr(os, "open", counting_open)
    monkeypatch.setattr(quick, "decode", counting_decode)
    return count


def made(source: Source, size: int, views: tuple[str, ...], counted: Counter[str]) -> Counter[str]:
    """What one batch of 8 costs."""
    tokens = CaptionTokenizer.train(["picture told in way"], CaptionTokenizer.Config(vocabulary=600))
    batches = Batches(source, tokens, Preprocess(size, crop_scale=(0.2, 1.0)), batch_size=8, seed=0, views=views)
    counted.clear()
    assert len(batches.batch(0)) == 8
    return counted


@pytest.mark.parametrize("views", [(), (IMAGE_VIEW2,), EVERY])
@pytest.mark.parametrize("mixed", [False, True])
def test_eight_samples_are_eight_opens_and_eight_decodes(shards, views, mixed, counted):
    source = (Mixture.Config({"one": shards}) if mixed else shards).build("train")
    assert made(source, 32, views, counted) == {"opens": 8, "decodes": 8}  # no box has twice 32 pixels


def test_a_caption_from_another_record_is_one_more_open(shards, counted):
    source = Shuffle(1.0).applied_to(shards.build("train"))
    assert made(source, 32, (IMAGE_VIEW2, TEXT_VIEW2), counted) == {"opens": 16, "decodes": 8}


def test_boxes_that_may_be_read_at_unlike_reductions_are_decoded_apart(shards, counted):
    cost = made(shards.build("train"), 12, (IMAGE_VIEW2,), counted)
    assert cost["opens"] == 8
    assert 8 < cost["decodes"] < 16


def test_crops_are_those_of_a_decode_of_their_own(counted):
    image = encoded(jpeg(200, 300), "")
    boxes = [(0, 0, 300, 200), (10, 20, 110, 90), (3, 5, 203, 155), (40, 40, 60, 61), (0, 0, 150, 150), (7, 9, 99, 200)]
    apart = [encoded(image.data, "").crops([box], 24)[0] for box in boxes]
    counted.clear()
    together = image.crops(boxes, 24)
    assert counted["decodes"] == 4  # whole, half, a quarter, an eighth
    for one, other in zip(together, apart, strict=True):
        assert torch.equal(one, other)
