"""Captions are cut once, and what is remembered is what would be cut again."""

from __future__ import annotations

import pytest

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.data.tokenizer_memory import PieceMemory
from equipoise.types import UserError

CAPTIONS = ["a red square", "a blue circle", "a red square", "", "one"]


def cutter(calls: list[list[str]]):
    def cut(captions: list[str]) -> list[list[int]]:
        calls.append(captions)
        return [[len(word) for word in caption.split()] for caption in captions]

    return cut


@pytest.mark.parametrize("kept", [0, 1, 2, 100])
def test_a_memory_of_any_size_gives_what_is_cut(kept: int) -> None:
    calls: list[list[str]] = []
    memory = PieceMemory(cutter(calls), kept)
    for _ in range(3):
        assert memory(CAPTIONS) == [(1, 3, 6), (1, 4, 6), (1, 3, 6), (), (3,)]
        assert memory(["two", "a red square"]) == [(3,), (1, 3, 6)]
    assert calls[:2] == [["a red square", "a blue circle", "", "one"], ["two"]], "each once"
    assert len(calls) == (2 if kept == 100 else 6)
    assert len(memory.unknown(sorted(set(CAPTIONS)))) == 4 - min(kept, 4)
    assert memory.unknown([None, ["a list"], "never seen"]) == [0, 1, 2]


def test_a_batch_of_data_beyond_the_memory_is_cut_once() -> None:
    calls: list[list[str]] = []
    memory = PieceMemory(cutter(calls), kept=0)
    for batch in (["a dog", "a cat"], ["a bird", "a dog"]):
        first = memory(batch)
        assert memory(batch[::-1]) == first[::-1]
        assert memory(batch[:1]) == first[:1], "what was not cut now is still the last"
    assert calls == [["a dog", "a cat"], ["a bird"]]


def test_a_known_caption_is_still_counted_as_cut_and_refused_where_strict() -> None:
    tokens = CaptionTokenizer.train(["red square on blue"] * 3, CaptionTokenizer.Config(context=4, vocabulary=600))
    with pytest.warns(UserWarning, match="context is 4"):
        tokens(["red square on blue"])
    tokens(["red square on blue"])
    assert tokens.truncated == 2
    with pytest.raises(UserError, match="context is 4"):
        tokens(["red square on blue"], strict=True)


def test_a_bad_caption_is_refused_every_time() -> None:
    tokens = CaptionTokenizer.train(["red square on blue"] * 3, CaptionTokenizer.Config(vocabulary=600))
    for _ in range(2):
        with pytest.raises(UserError, match="empty"):
            tokens(["red", " "])
    assert tokens.leaves_nothing(["red", ""]) == [False, True]
