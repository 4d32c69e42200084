"""Learning a vocabulary: the same captions give the same file, in any process."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import UserError

CORPUS = ["a small red fish left of a striped blue star", "two things, one of them round", "a fish", "a Red STAR!"] * 5
KINDS = ("bpe", "wordpiece")


def learned(kind: str = "bpe", **options: int) -> CaptionTokenizer:
    return CaptionTokenizer.train(CORPUS, CaptionTokenizer.Config(kind=kind, **{"vocabulary": 600, **options}))


def save_learned(folder: Path) -> None:
    """Learns from words with many ties and many letters, where an order left to chance would show."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh日本語中文", k=draw.randint(1, 6))) for _ in range(300)]
    captions = [" ".join(draw.choices(words, k=8)) for _ in range(300)]
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
        CaptionTokenizer.train(captions, CaptionTokenizer.Config(kind=kind, vocabulary=900)).save(folder / kind)


@pytest.mark.slow
def test_another_process_learns_the_same_file(tmp_path):
    save_learned(tmp_path / "here")
    code = "import pathlib, sys, test_tokenizer_training as own; own.save_learned(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, tmp_path / "there"], check=True, cwd=Path(__file__).parent)
    for kind in KINDS:
        here, there = (tmp_path / place / kind / "tokenizer.json" for place in ("here", "there"))
        assert here.read_bytes() == there.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_learned_words_are_whole_and_case_does_not_matter(kind):
    tokens = learned(kind)
    assert tokens(["a fish"])[1].sum() == 4
    assert torch.equal(tokens(["A FISH"])[0], tokens(["a fish"])[0])


def test_learned_bpe_reads_any_text_and_its_end_has_the_highest_id():
    tokens = learned("bpe")
    ids, mask = tokens(["日本語 😀 ünseen"])
    assert mask.sum() > 10
    assert tokens.end == ids.max() == tokens.size - 1


def test_wordpiece_has_the_ids_of_bert_and_marks_the_unknown():
    tokens = learned("wordpiece")
    assert (tokens.pad, tokens.start, tokens.end, tokens.mask_id) == (0, 2, 3, 4)
    assert tokens(["日本"])[0][0, 1] == 1


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"vocabulary": 514}, "take 514"),
        ({"kind": "wordpiece", "vocabulary": 9}, "special"),
        ({"context": 2}, "context is 2"),
    ],
)
def test_no_room(options, fault):
    with pytest.raises(UserError, match=fault):
        CaptionTokenizer.train(CORPUS, CaptionTokenizer.Config(**options))


def test_nothing_to_learn_from():
    with pytest.raises(UserError, match="no words"):
        CaptionTokenizer.train([], CaptionTokenizer.Config())
