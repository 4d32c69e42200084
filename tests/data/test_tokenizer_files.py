"""Published tokenizer files: ids against open_clip's own tokenizer, BERT's vocabulary, files that are wrong."""

from __future__ import annotations

import gzip
import json

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import UserError

VARIED = [
    "a photo of a cat",
    "Hello, World!!! it's 3:45pm -- don't you'll they've we're I'm he'd",
    "café naïve Ångström Straße ПРИВЕТ мир 日本語 한국어",
    "cafe\u0301 with a combining accent",
    "smile 😀 family 👨‍👩‍👧 flag 🇫🇷",
    "numbers 1234567890 and 3.14159 and ½",
    "tabs\tand\nnewlines   and   spaces ",
    "''s odd ''' quotes \"double\" #hash @at a_b-c/d\\e ~ ^ | <b>bold</b>",
    "ends with <|endoftext|> inside",
    "x" * 50,
    "word " * 100,
    "I'LL SHOUT'S",
]


@pytest.fixture(scope="session")
def peer(open_clip):
    return open_clip.tokenizer.SimpleTokenizer()


@pytest.fixture(scope="session")
def clip_folder(open_clip, peer, tmp_path_factory):
    """CLIP's vocab.json and merges.txt, made from the merges that open_clip ships."""
    with gzip.open(open_clip.tokenizer.default_bpe(), "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")[1 : 49152 - 256 - 2 + 1]
    names = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}
    folder = tmp_path_factory.mktemp("clip")
    pieces = {names.get(piece, piece): number for piece, number in peer.encoder.items()}
    (folder / "vocab.json").write_text(json.dumps(pieces))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *lines]))
    return folder


@pytest.fixture(scope="session")
def clip(clip_folder):
    return CaptionTokenizer.load(clip_folder)


@pytest.mark.filterwarnings("ignore:Caption 10")
def test_clip_files_give_the_ids_of_open_clip(open_clip, peer, clip):
    ids, _ = clip([open_clip.tokenizer.basic_clean(caption) for caption in VARIED], pad_to_context=True)
    assert torch.equal(ids, peer(VARIED))


def test_common_captions_need_no_cleaning_to_match_open_clip(peer, clip):
    captions = ["it’s a “quoted” word", "‘single’ and don’t", "  spaces around\u00a0and within "]
    ids, _ = clip(captions, pad_to_context=True)
    assert torch.equal(ids, peer(captions))


@settings(max_examples=300, deadline=None)
@given(caption=st.text(st.characters(min_codepoint=32, max_codepoint=0x24F), min_size=1))
def test_any_latin_text_matches_open_clip(open_clip, peer, clip, caption):
    cleaned = open_clip.tokenizer.basic_clean(caption)
    assume(cleaned and "ſ" not in cleaned)  # the regex module alone takes a long s after ' for the ending of "it's"
    assert torch.equal(clip([cleaned], pad_to_context=True)[0], peer([cleaned]))


def test_clip_special_ids(clip_folder):
    tokens = CaptionTokenizer.load(clip_folder / "vocab.json")
    special = (tokens.start, tokens.end, tokens.pad, tokens.mask_id, tokens.size, tokens.context)
    assert special == (49406, 49407, 0, None, 49408, 77)


def test_bert_vocabulary_file(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "fish", "##es", "!"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    for path in (tmp_path, tmp_path / "vocab.txt"):
        assert CaptionTokenizer.load(path)(["Réd fishes! star"])[0].tolist() == [[2, 5, 6, 7, 8, 1, 3, 0]]


def test_bert_vocabulary_with_capitals_keeps_case(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "Red"]))
    assert CaptionTokenizer.load(tmp_path)(["Red red"])[0].tolist() == [[2, 5, 4, 3]]


def test_a_foreign_tokenizer_without_start_and_end_gets_them(tmp_path):
    foreign = Tokenizer(models.WordLevel({"a": 0, "fish": 1, "?": 2}, unk_token="?"))
    foreign.pre_tokenizer = pre_tokenizers.Whitespace()
    foreign.enable_truncation(9)
    foreign.save(str(tmp_path / "mine.json"))
    tokens = CaptionTokenizer.load(tmp_path / "mine.json")
    assert tokens(["a fish"])[0].tolist() == [[3, 0, 1, 4]]
    assert (tokens.size, tokens.context) == (5, 9)
    tokens.save(tmp_path)
    assert CaptionTokenizer.load(tmp_path)(["a fish"])[0].tolist() == [[3, 0, 1, 4]]


@pytest.mark.parametrize(
    ("files", "path", "fault"),
    [
        ({}, "", "holds no tokenizer"),
        ({}, "none.json", "no such tokenizer file"),
        ({"tokenizer.json": "{"}, "", r"cannot read .*tokenizer\.json"),
        ({"vocab.json": "{}"}, "", "merges.txt: this file is missing"),
        ({"vocab.json": '{"a": 0}', "merges.txt": ""}, "", "startoftext.* is not in this vocabulary"),
        ({"vocab.txt": "a\nb"}, "", r"\[CLS\].* is not in this vocabulary"),
    ],
)
def test_wrong_files_are_named(files, path, fault, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=fault):
        CaptionTokenizer.load(tmp_path / path)
