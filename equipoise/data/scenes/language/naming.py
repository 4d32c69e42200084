"""Words for one thing: how a phrase is said as a noun ("a small striped red fish") or of a thing ("round and red").

The tables turn the vocabulary round: from what a phrase allows to the words that say it. `reading` uses the same ones.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from equipoise.data.scenes.language.meaning import Phrase
from equipoise.data.scenes.language.vocabulary import COLOUR_KINDS, COLOURS, SHAPE_KINDS, SHAPES, SIZES, TEXTURES, Words

HEADS: Words = SHAPE_KINDS["thing"][0]
NOUNS: Mapping[frozenset[str], Words] = {frozenset({shape}): words for shape, words in SHAPES.items()}
# "round thing" -> "round", "thing from the sky" -> "from the sky": what is said of a thing whose noun stays open
SHAPE_ADJECTIVES: Mapping[frozenset[str], Words] = {
    members: tuple(noun.replace("thing", "").strip() for noun in nouns)
    for kind, (nouns, members) in SHAPE_KINDS.items()
    if kind != "thing"
}
AFTER_NOUN = frozenset(
    noun.removeprefix("thing ") for nouns, _ in SHAPE_KINDS.values() for noun in nouns if noun.startswith("thing ")
)
COLOUR_ADJECTIVES: Mapping[frozenset[str], Words] = {
    **{frozenset({colour}): words for colour, (words, _) in COLOURS.items()},
    **{members: words for words, members in COLOUR_KINDS.values()},
}
SIZE_ADJECTIVES: Mapping[str, Words] = {size: words for size, (words, _) in SIZES.items()}


def pick(words: Words, rng: random.Random) -> str:
    """The plainest word most of the time, else one of its synonyms."""
    if len(words) == 1 or rng.random() < 0.6:
        return words[0]
    return words[1 + int(rng.random() * (len(words) - 1))]


def plural(noun: str) -> str:
    if noun == "fish":
        return noun
    return noun + ("es" if noun[-1] in "sx" else "s")


def with_article(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def names(phrases: Sequence[Phrase], rng: random.Random) -> list[str]:
    """Each phrase with its article; one said before is "another"."""
    if len(set(phrases)) == len(phrases):
        return [_name(phrase, rng) for phrase in phrases]
    nouns = {phrase: noun_phrase(phrase, rng) for phrase in dict.fromkeys(phrases)}
    return [
        f"another {nouns[phrase]}" if phrase in phrases[:number] else with_article(nouns[phrase])
        for number, phrase in enumerate(phrases)
    ]


def _name(phrase: Phrase, rng: random.Random) -> str:
    adjective = adjectives(phrase, rng)
    if adjective and rng.random() < 0.4:
        return f"something {adjective}"
    return with_article(noun_phrase(phrase, rng))


def noun_phrase(phrase: Phrase, rng: random.Random, many: bool = False) -> str:
    """The phrase without its article: "small striped red fish"."""
    words = [pick(SIZE_ADJECTIVES[phrase.size], rng)] if phrase.size else []
    surface = [pick(TEXTURES[phrase.texture], rng)] if phrase.texture else []
    if phrase.colours:
        swap = phrase.texture != "solid" and rng.random() < 0.3  # "red striped" is said as well, "red plain" is not
        surface.insert(0 if swap else 1, pick(COLOUR_ADJECTIVES[phrase.colours], rng))
    return " ".join([*words, *surface, _noun(phrase.shapes, rng, many)])


def adjectives(phrase: Phrase, rng: random.Random) -> str:
    """The phrase said of a thing: "round", "small and red"; empty where only a noun says it well."""
    if phrase.shapes in NOUNS:
        return ""
    stated = sum(part is not None for part in (phrase.shapes, phrase.colours, phrase.texture, phrase.size))
    if stated > 2:
        return ""
    words = [pick(SHAPE_ADJECTIVES[phrase.shapes], rng)] if phrase.shapes else []
    if stated == 2 and not AFTER_NOUN.isdisjoint(words):
        return ""
    words += [pick(SIZE_ADJECTIVES[phrase.size], rng)] if phrase.size else []
    words += [pick(TEXTURES[phrase.texture], rng)] if phrase.texture else []
    words += [pick(COLOUR_ADJECTIVES[phrase.colours], rng)] if phrase.colours else []
    return " and ".join(words)


def _noun(shapes: frozenset[str] | None, rng: random.Random, many: bool) -> str:
    """The noun with the words that cling to it: "fish", "round things", "thing from the sky"."""
    kind = ""
    if shapes is None:
        noun = pick(HEADS, rng)
    elif shapes in NOUNS:
        noun = pick(NOUNS[shapes], rng)
    else:
        kind, noun = pick(SHAPE_ADJECTIVES[shapes], rng), HEADS[0]
    noun = plural(noun) if many else noun
    return (f"{noun} {kind}" if kind in AFTER_NOUN else f"{kind} {noun}") if kind else noun
