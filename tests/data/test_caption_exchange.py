"""Single captions at other places, on every kind of source, and the noise index files of the field."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise.config import load_run
from equipoise.data.caption_exchange import ExchangedCaptions
from equipoise.data.caption_shuffle import Shuffle
from equipoise.data.features import FeatureFiles
from equipoise.data.files import Table
from equipoise.data.keep.records import records
from equipoise.data.noise_index import read_index, write_index
from equipoise.data.scenes import Scenes
from equipoise.data.source import can_crop, has_features, is_judged
from equipoise.types import UserError

RECORDS, EACH = 12, 3
COUNTS = np.full(RECORDS, EACH)


def features(folder: Path) -> FeatureFiles:
    rng = np.random.default_rng(0)
    image, text = rng.normal(size=(RECORDS, 4)), rng.normal(size=(RECORDS, EACH, 2))
    np.savez(folder / "f.npz", image=image.astype(np.float32), text=text.astype(np.float32))
    return FeatureFiles([folder / "f.npz"])


def test_captions_move_and_the_truth_is_told():
    clean = Scenes.Config(train_size=40).build("train")
    noisy = Shuffle(0.5, level="caption").applied_to(clean)
    words = [caption for index in range(40) for caption in clean.pair(index).captions]
    moved = [caption for index in range(40) for caption in noisy.pair(index).captions]
    assert sorted(moved) == sorted(words)
    wrong = 0
    for index in range(40):
        own, pair = clean.pair(index), noisy.pair(index)
        assert len(pair.captions) == len(own.captions)
        assert pair.key == own.key
        for number, (caption, origin) in enumerate(zip(pair.captions, noisy.origins(index), strict=True)):
            assert caption == clean.pair(origin[0]).captions[origin[1]]
            if origin[0] != index:
                wrong += 1
                assert not pair.truth["captions_true"][number]
    assert 0.45 * len(words) < wrong <= 0.5 * len(words)  # some only changed places at home
    assert torch.equal(noisy.images([3, 5], 16), clean.images([3, 5], 16))
    assert is_judged(noisy)
    assert not can_crop(noisy)


def test_features_go_with_their_captions(tmp_path):
    clean = features(tmp_path)
    noisy = Shuffle(0.7, level="caption", seed=4).applied_to(clean)
    assert isinstance(noisy, ExchangedCaptions)
    assert has_features(noisy)
    rows, _, owners = clean.text_features(range(RECORDS))
    found, _, places = noisy.text_features([7, 2], per_image=2)
    expected = [rows[donor * EACH + number] for index in (7, 2) for donor, number in noisy.origins(index)[:2]]
    assert torch.equal(found, torch.stack(expected))
    assert places.tolist() == [0, 0, 1, 1]
    for draw in (0.0, 0.4, 0.99):
        batch = noisy.batch([7, 2], [draw] * 2, None)
        donors = [noisy.origins(index)[int(draw * EACH)] for index in (7, 2)]
        assert torch.equal(batch.tokens, torch.stack([rows[d * EACH + n] for d, n in donors]))
        assert torch.equal(batch.images, clean.batch([7, 2], [0.0] * 2, None).images)
    names = [fingerprint for _, texts in records(noisy) for fingerprint in texts.tolist()]
    before = [fingerprint for _, texts in records(clean) for fingerprint in texts.tolist()]
    assert sorted(names) == sorted(before)
    assert names != before
    assert len(owners) == len(names)


def test_an_index_file_gives_the_same_captions_again(tmp_path):
    clean = features(tmp_path)
    noisy = Shuffle(0.6, level="caption", seed=1).applied_to(clean)
    write_index(tmp_path / "noise.npy", COUNTS, noisy.taken)
    again = Shuffle(file=str(tmp_path / "noise.npy")).applied_to(clean)
    for index in range(RECORDS):
        assert {donor for donor, _ in again.origins(index)} == {donor for donor, _ in noisy.origins(index)}
    shown = np.load(tmp_path / "noise.npy")
    assert shown.dtype == np.int64
    owners = np.repeat(np.arange(RECORDS), EACH)
    for index in range(RECORDS):  # the field's meaning: caption i is shown image shown[i]
        assert sorted(owners[np.flatnonzero(shown == index)]) == sorted(donor for donor, _ in noisy.origins(index))


@pytest.mark.parametrize("counts", [[EACH] * RECORDS, [1, 5] * (RECORDS // 2)])
def test_an_index_by_image_moves_all_captions_together(tmp_path, counts):
    """Also where images have one caption or five, as those of COCO."""
    (tmp_path / "table.json").write_text(json.dumps([
        {"filepath": f"{number}.png", "caption": [f"{number}, {place}" for place in range(count)]}
        for number, count in enumerate(counts)
    ]))  # fmt: skip
    for number in range(RECORDS):
        Image.new("RGB", (2, 2), (number, 0, 0)).save(tmp_path / f"{number}.png")
    clean = Table(test=str(tmp_path / "table.json"), captions=("caption",)).build("test")
    donors = Shuffle(0.6, seed=2).applied_to(clean).text_numbers
    write_index(tmp_path / "image.npy", np.ones(RECORDS, dtype=np.int64), np.array(donors))
    shown = np.load(tmp_path / "image.npy")
    noisy = Shuffle(file=str(tmp_path / "image.npy")).applied_to(clean)
    for index in range(RECORDS):  # the field's meaning: all captions of i are shown image shown[i]
        assert noisy.pair(int(shown[index])).captions == clean.pair(index).captions
        assert noisy.pair(index).key == clean.pair(index).key
        assert donors[int(shown[index])] == index


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (np.arange(7), "7 entries"),
        (np.zeros(RECORDS * EACH, dtype=np.int64), "other data"),
        (-np.ones(RECORDS * EACH, dtype=np.int64), "other data"),
        (np.full(RECORDS * EACH, 2**62), "other data"),
        (np.zeros(RECORDS, dtype=np.uint64), "the captions of one"),
        (np.full(RECORDS * EACH, 0.5), "float64"),
        (np.zeros((2, 2), dtype=np.int64), r"\[2, 2\]"),
    ],
)
def test_an_index_of_other_data_is_refused(tmp_path, content, said):
    np.save(tmp_path / "bad.npy", content)
    with pytest.raises(UserError, match=rf"bad\.npy: .*{said}"):
        read_index(tmp_path / "bad.npy", COUNTS)


def test_what_is_no_index_is_refused(tmp_path):
    (tmp_path / "bad.npy").write_bytes(b"not numbers")
    with pytest.raises(UserError, match=r"bad\.npy"):
        read_index(tmp_path / "bad.npy", COUNTS)
    with pytest.raises(UserError, match=r"none\.npy"):
        read_index(tmp_path / "none.npy", COUNTS)
    with pytest.raises(UserError, match="share and file"):
        load_run("demo", ["shuffle.share=0.4", "shuffle.file=x.npy"])
