"""Every word and set phrase a caption may use, with the part it plays; the first half of reading a caption back."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from equipoise.data.scenes.language.meaning import ANYTHING, Phrase
from equipoise.data.scenes.language.naming import (
    AFTER_NOUN,
    COLOUR_ADJECTIVES,
    HEADS,
    NOUNS,
    SHAPE_ADJECTIVES,
    SIZE_ADJECTIVES,
    plural,
)
from equipoise.data.scenes.language.vocabulary import RELATIONS, TEXTURES, Words
from equipoise.data.scenes.language.wording import EXISTS, LEADS, NUMBERS, RELATIONS_TO_IT
from equipoise.types import UserError


@dataclass(frozen=True)
class Word:
    """A word or set phrase as it was written, its part in the sentence and what it stands for."""

    text: str
    part: str
    value: Phrase | str | int | None = None


def _entries() -> Iterator[tuple[Words, str, Phrase | str | int | None]]:
    yield ("a", "an", "the", "another"), "article", None
    yield ("a single", "the single", "only one", "a lone"), "single", None
    yield ("something",), "something", None
    yield (*LEADS, *EXISTS, "a photo of", "an image showing", "the picture shows", "here is", "here are"), "lead", None
    yield ("and", "with", "is", "which is", ","), "", None  # each plays its own part
    yield ("of them",), "of them", None
    yield ("both", "all"), "all", None
    for number, word in NUMBERS.items():
        yield (word, str(number)), "number", number
    for relation in RELATIONS:
        yield RELATIONS[relation], "relation", relation
        yield RELATIONS_TO_IT[relation], "relation to it", relation
    for words, phrase in _nouns():
        yield words, "noun", phrase
    for words, phrase in _adjectives():
        yield tuple(w for w in words if w not in AFTER_NOUN), "adjective", phrase
        yield tuple(w for w in words if w in AFTER_NOUN), "after noun", phrase


def _nouns() -> Iterator[tuple[Words, Phrase]]:
    for nouns, phrase in [(HEADS, ANYTHING), *((nouns, Phrase(shapes=shapes)) for shapes, nouns in NOUNS.items())]:
        yield (*nouns, *map(plural, nouns)), phrase


def _adjectives() -> Iterator[tuple[Words, Phrase]]:
    yield from ((words, Phrase(shapes=shapes)) for shapes, words in SHAPE_ADJECTIVES.items())
    yield from ((words, Phrase(colours=colours)) for colours, words in COLOUR_ADJECTIVES.items())
    yield from ((words, Phrase(texture=texture)) for texture, words in TEXTURES.items())
    yield from ((words, Phrase(size=size)) for size, words in SIZE_ADJECTIVES.items())


def _collect(entries: Iterable[tuple[Words, str, Phrase | str | int | None]]) -> Mapping[str, Word]:
    found: dict[str, Word] = {}
    for texts, part, value in entries:
        for text in texts:
            word = Word(text, part or text, value)
            assert found.setdefault(text, word) == word, f"{text!r} stands for two things"
    return found


LEXICON = _collect(_entries())
LONGEST = max(len(text.split()) for text in LEXICON)


def words_of(caption: str) -> list[Word]:
    """The caption cut into known words, the longest set phrase first."""
    pieces = re.findall(r"[^\s,]+|,", caption.lower().strip().removesuffix("."))
    words = []
    start = 0
    while start < len(pieces):
        for length in range(min(LONGEST, len(pieces) - start), 0, -1):
            if word := LEXICON.get(" ".join(pieces[start : start + length])):
                words.append(word)
                start += length
                break
        else:
            raise _unknown(pieces[start], caption)
    return words


def _unknown(piece: str, caption: str) -> UserError:
    nearest = difflib.get_close_matches(piece, LEXICON, n=1)
    hint = f'did you mean "{nearest[0]}"?' if nearest else "use the words of the scenes vocabulary"
    return UserError(f'cannot read the caption "{caption}": the word "{piece}" is not known; {hint}')


END = Word("", "end")


class Cursor:
    """A place in a caption's words, from which one reads on from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = words_of(text)
        self.place = 0

    def peek(self, ahead: int = 0) -> Word:
        place = self.place + ahead
        return self.words[place] if place < len(self.words) else END

    def accept(self, part: str) -> Word | None:
        """The next word, if it plays this part."""
        word = self.peek()
        if word.part != part:
            return None
        self.place += 1
        return word

    def expect(self, part: str) -> Word:
        word = self.accept(part)
        if word is None:
            raise self.lost()
        return word

    def lost(self) -> UserError:
        word = self.peek()
        return self.error(f'"{word.text}" is not expected there' if word is not END else "it ends too early")

    def error(self, problem: str) -> UserError:
        return UserError(f'cannot read the caption "{self.text}": {problem}; say it like "a red fish left of a star"')
