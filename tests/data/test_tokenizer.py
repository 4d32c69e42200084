"""Tokens: the shape of a batch, saving, captions that are too long, empty or no text."""

from __future__ import annotations

import pickle

import pytest
import torch
from tokenizers import Tokenizer

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import UserError

CORPUS = ["a small red fish left of a striped blue star", "two things, one of them round", "a fish", "a Red STAR!"] * 5
KINDS = ("bpe", "wordpiece")


def learned(kind: str = "bpe", **options: int) -> CaptionTokenizer:
    return CaptionTokenizer.train(CORPUS, CaptionTokenizer.Config(kind=kind, **{"vocabulary": 600, **options}))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_start_end_and_pad(kind):
    tokens = learned(kind)
    ids, mask = tokens(["a fish", "a small red fish left of a striped blue star"])
    assert ids.dtype == torch.int64
    assert mask.dtype == torch.bool
    assert ids.shape == mask.shape
    assert ids.shape[1] % 4 == 0
    for row, real in zip(ids, mask, strict=True):
        length = int(real.sum())
        assert real[:length].all()
        assert (row[0], row[length - 1]) == (tokens.start, tokens.end)
        assert (row[length:] == tokens.pad).all()
        assert not torch.isin(row[1 : length - 1], torch.tensor([tokens.start, tokens.end])).any()
    assert ids.max() < tokens.size <= 600


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_gives_identical_ids(kind, tmp_path):
    tokens = learned(kind, context=12)
    tokens.save(tmp_path)
    captions = ["Café, 日本語!", "it’s 3:45pm 😀", "a [SEP] <|endoftext|> b", *CORPUS]
    for loaded in (CaptionTokenizer.load(tmp_path), pickle.loads(pickle.dumps(tokens))):
        with pytest.warns(UserWarning, match="context is 12"):
            pairs = list(zip(tokens(captions), loaded(captions), strict=True))
        assert all(torch.equal(ours, theirs) for ours, theirs in pairs)
        for name in ("size", "start", "end", "pad", "mask_id", "context"):
            assert getattr(tokens, name) == getattr(loaded, name)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_saved_file_means_the_same_without_us(kind, tmp_path):
    tokens = learned(kind, context=8)
    tokens.save(tmp_path)
    alone = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode_batch(CORPUS)
    with pytest.warns(UserWarning, match="context is 8"):
        assert tokens(CORPUS)[0].tolist() == [encoding.ids for encoding in alone]


def test_a_long_caption_is_cut_counted_and_warned_about_once():
    tokens = learned(context=6)
    with pytest.warns(UserWarning, match=r"Caption 1 \('a small red.*12 tokens") as caught:
        ids, mask = tokens(["a fish", CORPUS[0], CORPUS[0]])
    assert len(caught) == 1
    assert tokens.truncated == 2
    assert ids.shape == (3, 6)
    assert ids[1, -1] == tokens.end
    assert mask[1].all()


def test_a_caption_of_just_the_context_is_not_cut():
    tokens = learned(context=12)
    ids, _ = tokens([CORPUS[0]], strict=True)
    assert ids.shape == (1, 12)
    assert tokens.truncated == 0


def test_strict_refuses_a_long_caption():
    with pytest.raises(UserError, match=r"The caption of b7 \('a small.*12 tokens.*context is 6"):
        learned(context=6)(["a fish", CORPUS[0]], keys=["a1", "b7"], strict=True)


@pytest.mark.parametrize(
    ("caption", "fault"),
    [("", "empty"), (" \n", "empty"), (None, "not text"), (("a", "b"), "not text"), ("a \ud83d", "half")],
)
def test_a_caption_that_is_no_text_is_named(caption, fault):
    with pytest.raises(UserError, match=f"Caption 1 .*{fault}"):
        learned()(["a fish", caption])
    with pytest.raises(UserError, match=f"The caption of 0042 .*{fault}"):
        learned()([caption], keys=["0042"])
    with pytest.raises(UserError, match=f"Caption 1 .*{fault}"):
        CaptionTokenizer.train(["a fish", caption], CaptionTokenizer.Config())


def test_a_caption_that_cleaning_empties_is_named():
    with pytest.raises(UserError, match=r"Caption 0 .*no words"):
        learned("wordpiece")(["\u200b"])


def test_a_batch_of_none_and_a_lone_string():
    tokens = learned()
    assert tokens([])[0].shape[0] == 0
    assert torch.equal(tokens("a fish")[0], tokens(["a fish"])[0])


@pytest.mark.parametrize("spelled", ["<|endoftext|>", "[SEP]", "[PAD]"])
@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_spelled_out_are_plain_text(kind, spelled):
    tokens = learned(kind)
    ids, mask = tokens([f"a {spelled} fish"])
    assert (ids == tokens.end).sum() == 1
    assert mask.sum() > 4


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*tokenizer\.json"):
        learned().save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"kind": "bpr"}, "bpe, wordpiece, file"),
        ({"kind": "file"}, "each needs the other"),
        ({"file": "tokenizer.json"}, "each needs the other"),
    ],
)
def test_wrong_configurations(options, fault):
    with pytest.raises(UserError, match=fault):
        CaptionTokenizer.Config(**options)


def test_from_config_reads_or_learns(tmp_path):
    learned().save(tmp_path)
    read = CaptionTokenizer.from_config(CaptionTokenizer.Config(kind="file", file=str(tmp_path), context=10), [])
    made = CaptionTokenizer.from_config(CaptionTokenizer.Config(vocabulary=600, context=10), CORPUS)
    assert read.context == made.context == 10
    assert torch.equal(read(CORPUS[1:3])[0], made(CORPUS[1:3])[0])
