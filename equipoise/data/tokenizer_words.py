"""Which words the tokens of a caption belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Encoding


def words_of(encoding: Encoding, caption: str) -> list[str | None]:
    """The word of each token, whole though the token is a part of it."""
    return [None if span is None else caption[slice(*span)].lower() for span in word_spans_of(encoding, caption)]


def word_spans_of(encoding: Encoding, caption: str) -> list[tuple[int, int] | None]:
    """First character of each token's word, and the one behind it; None for what is no word."""
    spans: dict[int | None, tuple[int, int]] = {}
    for word, (start, stop) in zip(encoding.word_ids, encoding.offsets, strict=True):
        first, last = spans.get(word, (start, stop))
        spans[word] = min(first, start), max(last, stop)
    return [_stripped(caption, *spans[word]) for word in encoding.word_ids]


def _stripped(caption: str, start: int, stop: int) -> tuple[int, int] | None:
    """The span without the spaces around it; None where no letter or digit is in it."""
    text = caption[start:stop]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    return (start, start + len(text)) if any(map(str.isalnum, text)) else None
