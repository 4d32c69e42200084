"""Captions of which a tokenizer leaves nothing."""

from __future__ import annotations

import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from some_files import jpeg, records, write_tar

from equipoise.data.bad_records import Tally
from equipoise.data.batches import Batches
from equipoise.data.features.source import FeatureFiles
from equipoise.data.files import Shards
from equipoise.data.files.check import check
from equipoise.data.keep.readable import readable
from equipoise.data.keep.source import KeptSource
from equipoise.data.preprocess import Preprocess
from equipoise.data.sample_views import changed, with_changed
from equipoise.data.source import IMAGE_PARTNER, Source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch, UserError

EMPTY = ("\u200b", "\0", "\x01", "\x7f", "\u0301", "\ufffd")
WORDS = [f"picture {number} told in way {number}" for number in range(10)]


def tokenizer(kind: str) -> CaptionTokenizer:
    return CaptionTokenizer.train(WORDS, CaptionTokenizer.Config(kind=kind, vocabulary=600))


def source_of(folder: Path, captions: dict[int, str], split: str = "train", max_bad: float = 0.5) -> Source:
    """Sixteen records of one caption each, but for those given."""
    files = {}
    for number in range(16):
        files[f"{number:02d}.jpg"] = jpeg(20, 20, number)
        files[f"{number:02d}.txt"] = captions.get(number, f"picture {number}").encode()
    write_tar(folder / "a.tar", files)
    path = str(folder / "a.tar")
    return Shards(train=path, validation=path, max_bad=max_bad).build(split)


def batches(source: Source, tokens: CaptionTokenizer, **options: object) -> Batches:
    return Batches(source, tokens, Preprocess(size=8), **{"batch_size": 8, "seed": 1} | options)


def test_what_the_tokenizers_leave_nothing_of():
    captions = [*EMPTY, "\u200b\u0301", "a", "...", "\U0001f600", "\u732b"]
    assert tokenizer("wordpiece").leaves_nothing(captions) == [True] * 7 + [False] * 4
    assert not any(tokenizer("bpe").leaves_nothing(captions))
    with pytest.raises(UserError, match=r"The caption of b .*half a character"):
        tokenizer("bpe").leaves_nothing(["a", "\ud800"], ["a", "b"])


@pytest.mark.parametrize("workers", [0, 2])
def test_the_next_record_stands_in(workers, tmp_path):
    source = source_of(tmp_path, dict(enumerate(EMPTY)))
    made = batches(source, tokenizer("wordpiece"), workers=workers)
    with pytest.warns(UserWarning, match=r"a\.tar, record 0\d: the tokenizer leaves nothing of the caption '\\"):
        used = [int(index) for batch in islice(made.starting_at(0), 2) for index in batch.index]
    assert sorted(used) == [6] * 7 + list(range(7, 16))
    assert made.bad.tally == Tally(16, 6)


def test_another_caption_of_the_record_is_read_first(tmp_path):
    source = source_of(tmp_path, dict.fromkeys(range(16), "\u200b\nthe picture"))
    tokens = tokenizer("wordpiece")
    made = batches(source, tokens)
    expected = tokens("the picture")[0][0].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [ids.tolist() for batch in islice(made.starting_at(0), 2) for ids in batch.tokens]
    assert found == [expected] * 16
    assert made.bad.tally == Tally(16, 0)


def test_weights_are_those_of_the_captions_read(tmp_path):
    whole = source_of(tmp_path, dict.fromkeys(range(16), "\u200b\nthe picture"))
    weights = np.tile(np.array([3.0, 0.5], dtype=np.float32), 16)
    some = KeptSource(whole, np.full(16, 2), np.ones(32, dtype=bool), weights)
    assert batches(some, tokenizer("wordpiece")).batch(0).side["pair_weight"].tolist() == [0.5] * 8


@pytest.mark.filterwarnings("ignore:skipped")
def test_partners_on_another_process_have_the_same_stand_ins(tmp_path):
    source, tokens = source_of(tmp_path, dict(enumerate(EMPTY))), tokenizer("wordpiece")
    whole = batches(source, tokens, views=[IMAGE_PARTNER]).batch(0)
    parts = [batches(source, tokens, views=[IMAGE_PARTNER], share=(part, 2)).batch(0) for part in range(2)]
    assert torch.equal(torch.cat([part.side[IMAGE_PARTNER] for part in parts]), whole.side[IMAGE_PARTNER])
    assert torch.equal(torch.cat([part.index for part in parts]), whole.index)


def test_in_evaluation_they_are_left_out(tmp_path):
    source = source_of(tmp_path, {3: "\u200b", 5: "\u0301\nwords"}, "validation")
    assert readable(source, tokenizer("bpe")) is source
    with pytest.warns(UserWarning, match=r"nothing of 2 captions, so 1 of 16 records .*a\.tar, record 03"):
        kept = readable(source, tokenizer("wordpiece"))
    assert len(kept) == 15
    assert kept.pair(4).captions == ("words",)
    assert kept.images(range(15), 8).shape == (15, 3, 8, 8)
    source = source_of(tmp_path, dict.fromkeys(range(11), "\0"), "validation", max_bad=0.01)
    with pytest.raises(UserError, match="11 of 16 records cannot be used"):
        readable(source, tokenizer("wordpiece"))


def test_features_with_words(tmp_path):
    np.savez(tmp_path / "f.npz", image=np.ones((3, 3)), captions=np.array(["a fish", "\u200b", "a star"]))
    with pytest.warns(UserWarning, match="so 1 of 3 records"):
        kept = readable(FeatureFiles([tmp_path / "f.npz"]), tokenizer("wordpiece"))
    assert [kept.pair(index).captions for index in range(len(kept))] == [("a fish",), ("a star",)]


def test_a_changed_caption_keeps_a_word():
    tokens, caption = tokenizer("wordpiece"), "\u200b picture"
    seed = next(seed for seed in range(1000) if changed(caption, seed) == "\u200b")
    ids, mask = tokens([caption])
    batch = Batch(torch.zeros(1, 3, 8, 8), ids, mask, torch.zeros(1))
    assert torch.equal(with_changed(batch, [caption], ["k"], tokens, [seed]).side["text_view2"], ids)


def test_data_check_counts_them(tmp_path):
    texts = {"x.txt": b"\0\n\x7f", "y.txt": b"\0\na"}
    write_tar(tmp_path / "a.tar", {**records(2), "x.jpg": jpeg(), "y.jpg": jpeg(), **texts})
    found = Shards().records((str(tmp_path / "a.tar"),))
    summary = check(found, leaves_nothing=tokenizer("wordpiece").leaves_nothing).summary()
    assert (summary["records"], summary["usable"], summary["captions without words"]) == (4, 3, 1)
    assert "record x" in summary["faults"][0]["place"]
    assert check(found, leaves_nothing=tokenizer("bpe").leaves_nothing).summary()["unusable"] == 0
