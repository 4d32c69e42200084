"""Noun phrases of captions by counting, with no tagger and no word list but the function words.

In English a noun phrase runs from a determiner over its adjectives to a noun. Its words follow determiners, or words
that do and that some other word must follow (modifiers); finite verbs and prepositions hardly ever stand there:

    modifier(w)  nominal, and count(w at the end of a clause or before a function word) < CLOSES · count(w)
    nominal(w)   count(w behind a determiner or a modifier) >= LEADS · count(w), from determiners on in ROUNDS rounds;
                 a rare word, if it stands behind a nominal one and does not end as participles do
    phrase       a run of up to LONGEST nominal words, cut behind its last word that ends most of its runs

It knows nothing but the caption's words: where the caption is wrong, so are the tags.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*|\S")
_DETERMINERS = """
a an the this that these those his her its their my your our one two three four five six seven eight nine ten some
several many another each every both few no
"""
_OTHER_FUNCTION_WORDS = """
of in on at by for with without from to into onto over under above below behind beside near next between among through
across along around against during before after while as and or but nor so than then there here it he she they them him
we us you i who whom which what where when is are was were be been being am has have had do does did can could will
would may might must shall should not very too also just only other others up down out off away back together all
picture pictures image images photo photograph view front background foreground top middle side left right
"""
DETERMINERS = frozenset(_DETERMINERS.split())
FUNCTION_WORDS = DETERMINERS | frozenset(_OTHER_FUNCTION_WORDS.split())
LEADS, CLOSES, ROUNDS = 0.05, 0.2, 4
ENDS_RUNS = 0.6
RARE = 5  # occurrences below which a word's own counts say nothing
LONGEST = 3
PARTICIPLES = ("ing", "ed")


@dataclass(frozen=True)
class Phrases:
    """Counts of words, from which noun phrases are found."""

    counts: Counter[str]
    led: Counter[str]  # behind a determiner or a modifier
    ends: Counter[str]  # of runs
    in_runs: Counter[str]

    @classmethod
    def learned(cls, captions: Sequence[str]) -> Phrases:
        """Learn from captions in two passes: which words are nominal, then which of them end runs."""
        follows = Counter(pair for caption in captions for pair in pairwise([*_words(caption), "."]))
        counts, closes, led = Counter[str](), Counter[str](), Counter[str]()
        for (word, after), count in follows.items():
            counts[word] += count
            closes[word] += count * _is_function(after)
        leaders = DETERMINERS
        for _ in range(ROUNDS):
            led = Counter[str]()
            for (before, word), count in follows.items():
                led[word] += count * (before in leaders and not _is_function(word))
            modifiers = (w for w in led if led[w] >= LEADS * counts[w] > 0 and closes[w] < CLOSES * counts[w])
            leaders = DETERMINERS | frozenset(modifiers)
        learned = cls(counts, led, Counter(), Counter())
        for caption in captions:
            for run in learned._runs(_words(caption)):
                learned.ends[run[-1]] += 1
                learned.in_runs.update(run)
        return learned

    def of(self, captions: Iterable[str], most: int) -> tuple[str, ...]:
        """Phrases of an image's captions, one per noun, by the number of captions that have it."""
        mentions: Counter[str] = Counter()
        by_noun: dict[str, Counter[str]] = {}
        for caption in captions:
            phrases = list(dict.fromkeys(self.phrases(caption)))
            for phrase in phrases:
                noun = phrase.rpartition(" ")[2]
                by_noun.setdefault(noun, Counter())[phrase] += 1
            mentions.update({phrase.rpartition(" ")[2] for phrase in phrases})
        order = list(by_noun)  # first named, first of equals
        nouns = sorted(order, key=lambda noun: (-mentions[noun], order.index(noun)))[:most]
        return tuple(max(by_noun[noun], key=lambda phrase: (by_noun[noun][phrase], len(phrase))) for noun in nouns)

    def phrases(self, caption: str) -> Iterator[str]:
        for run in self._runs(_words(caption)):
            last = max((place for place, word in enumerate(run, start=1) if self._ends_runs(word)), default=0)
            if last:
                yield " ".join(run[max(0, last - LONGEST) : last])

    def _runs(self, words: list[str]) -> Iterator[list[str]]:
        run: list[str] = []
        for word in [*words, "."]:
            if self._nominal(word, behind_nominal=bool(run)):
                run.append(word)
            elif run:
                yield run
                run = []

    def _nominal(self, word: str, behind_nominal: bool) -> bool:
        if _is_function(word):
            return False
        if behind_nominal and self.counts[word] < RARE:
            return not word.endswith(PARTICIPLES)
        return self.led[word] >= LEADS * max(1, self.counts[word])

    def _ends_runs(self, word: str) -> bool:
        return self.in_runs[word] < RARE or self.ends[word] >= ENDS_RUNS * self.in_runs[word]


def _is_function(word: str) -> bool:
    return word in FUNCTION_WORDS or not word[0].isalpha()


def _words(caption: str) -> list[str]:
    return WORD.findall(caption.lower())
