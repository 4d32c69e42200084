"""Is a word relevant because it says something? Relevance on the words that name a thing's shape, colour or texture,
and what is lost without the word that is called the most relevant.

    hits   = share of texts whose most relevant word names something       guessing: the share of such words
    energy = share of relevance on such words                              guessing: the same
    drop   = mean of s(text) - s(text without its most relevant word)      beside it: without a word drawn at random

Of equal words the share counts, as in `pointing.py`.
"""

from __future__ import annotations

from equipoise.analysis.explain.relevance import Span
from equipoise.data.scenes.language.vocabulary import COLOURS, SHAPES, TEXTURES

NAMES = frozenset(
    word
    for words in (*SHAPES.values(), *(words for words, _ in COLOURS.values()), *TEXTURES.values())
    for phrase in words
    for word in phrase.split()
)


def says_something(text: str, span: Span) -> bool:
    return text[slice(*span)].lower() in NAMES


def hit(text: str, words: dict[Span, float]) -> float:
    most = [span for span, value in words.items() if value == max(words.values())]
    return sum(says_something(text, span) for span in most) / len(most)


def energy(text: str, words: dict[Span, float]) -> float:
    total = sum(words.values())
    values = words if total else dict.fromkeys(words, 1.0)
    return sum(value for span, value in values.items() if says_something(text, span)) / sum(values.values())


def without(text: str, span: Span) -> str:
    return " ".join((text[: span[0]] + " " + text[span[1] :]).split())
