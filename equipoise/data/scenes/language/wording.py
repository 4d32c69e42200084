"""Words for a meaning: `say` turns a statement into one of the English sentences that state just that.

The shape of the sentence follows the order of the phrases and relations, the words are drawn:

    (0, r, 1), (1, r, 2)   a fish left of a star, which is above a heart
    (1, r, 0), (2, r, 0)   a star with a fish to its left and a heart below it
    no relation            a fish and a star; two stars
    count                  three things, two of them round; a single red fish

`reading.parse` is the way back: parse(say(meaning)) == meaning.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from equipoise.data.scenes.language.meaning import Meaning, Phrase
from equipoise.data.scenes.language.naming import HEADS, adjectives, names, noun_phrase, pick, plural, with_article
from equipoise.data.scenes.language.vocabulary import RELATIONS, Words

Relations = Sequence[tuple[int, str, int]]

NUMBERS: Mapping[int, str] = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
LEADS: Words = ("a picture of", "an image of", "a drawing of", "a picture showing", "this picture shows")
EXISTS: Words = ("there is", "there are")
# how a thing named after "with" stands to the one named before it
RELATIONS_TO_IT: Mapping[str, Words] = {
    "left_of": ("to its left", "on its left"),
    "right_of": ("to its right", "on its right"),
    **{r: tuple(f"{word} it" for word in RELATIONS[r]) for r in ("above", "below", "inside", "around")},
}


def say(meaning: Meaning, rng: random.Random) -> str:
    """One way to state the meaning in English."""
    led = rng.random() < 0.3
    if meaning.count is not None:
        body = _counted(meaning.count, meaning.phrases, rng)
    elif len(meaning.phrases) > 1 and not meaning.relations and len(set(meaning.phrases)) == 1:
        body = f"{NUMBERS[len(meaning.phrases)]} {noun_phrase(meaning.phrases[0], rng, many=True)}"
    else:
        body = _clauses(meaning, rng, sentence=not led)
    return f"{_lead(body, rng)} {body}" if led else body


def enumerated(items: Sequence[str]) -> str:
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


def _lead(body: str, rng: random.Random) -> str:
    if rng.random() < 0.75:
        return rng.choice(LEADS)
    return EXISTS[body.split(maxsplit=1)[0] in NUMBERS.values()]


def _counted(count: int, phrases: Sequence[Phrase], rng: random.Random) -> str:
    assert len(set(phrases)) <= 1, "a count goes with one kind of phrase only"
    if count == 1:
        return f"a single {noun_phrase(phrases[0], rng)}"
    things = f"{NUMBERS[count]} {plural(pick(HEADS, rng))}"
    if not phrases:
        return things
    share = NUMBERS[len(phrases)] if len(phrases) < count else "both" if count == 2 else "all"
    words = adjectives(phrases[0], rng)
    if not words and len(phrases) == 1:
        words = with_article(noun_phrase(phrases[0], rng))
    return f"{things}, {share} of them {words or noun_phrase(phrases[0], rng, many=True)}"


def _clauses(meaning: Meaning, rng: random.Random, sentence: bool) -> str:
    things = names(meaning.phrases, rng)
    linked = {max(a, b) for a, _, b in meaning.relations}
    if not linked:
        return enumerated(things)
    starts = [i for i in range(len(things)) if i not in linked]
    clauses = []
    for start, end in zip(starts, [*starts[1:], len(things)], strict=True):
        relations = [r for r in meaning.relations if start <= r[0] < end]
        if not relations:
            clauses.append(things[start])
        elif relations[0][0] == start:
            verb = " is" if sentence and len(starts) == 1 and rng.random() < 0.2 else ""
            clauses.append(f"{things[start]}{verb} {_chain(things, relations, rng)}")
        else:
            clauses.append(f"{things[start]} with {_hub(things, relations, rng)}")
    return ", and ".join(clauses)


def _chain(things: Sequence[str], relations: Relations, rng: random.Random) -> str:
    return ", which is ".join(f"{pick(RELATIONS[relation], rng)} {things[b]}" for _, relation, b in relations)


def _hub(things: Sequence[str], relations: Relations, rng: random.Random) -> str:
    return enumerated([f"{things[a]} {pick(RELATIONS_TO_IT[relation], rng)}" for a, relation, _ in relations])
