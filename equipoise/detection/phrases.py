"""Names of things from captions: noun phrases by counting, with no tagger and no word list but the function words.

In English a noun phrase runs from a determiner to a noun, and its words (adjectives, nouns) follow determiners now and
then, which finite verbs and prepositions hardly ever do; and nouns end such runs, where adjectives are followed by one:

    nominal(w)   count(determiner w) / count(w) >= AFTER_DETERMINER; a rare word, if it stands behind a nominal one
    phrase       a run of up to LONGEST nominal words, cut behind its last word that ends half of its runs or more

A caption's words are all this knows: where the caption is wrong, the tags are.
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
_OTHERS = """
of in on at by for with without from to into onto over under above below behind beside near next between among through
across along around against during before after while as and or but nor so than then there here it he she they them him
we us you i who whom which what where when is are was were be been being am has have had do does did can could will
would may might must shall should not very too also just only other others up down out off away back together all
picture pictures image images photo photograph view front background foreground top middle side left right
"""
DETERMINERS = frozenset(_DETERMINERS.split())
FUNCTION_WORDS = DETERMINERS | frozenset(_OTHERS.split())
AFTER_DETERMINER = 0.05
ENDS_RUNS = 0.5
RARE = 5  # occurrences below which a word's own counts say nothing
LONGEST = 3


@dataclass(frozen=True)
class Phrases:
    counts: Counter[str]
    after_determiner: Counter[str]
    ends: Counter[str]  # of runs
    in_runs: Counter[str]

    @classmethod
    def learned(cls, captions: Sequence[str]) -> Phrases:
        """Two readings of all captions: which words are nominal, then which of them end runs."""
        found = cls(Counter(), Counter(), Counter(), Counter())
        for caption in captions:
            words = _words(caption)
            found.counts.update(words)
            found.after_determiner.update(word for before, word in pairwise(words) if before in DETERMINERS)
        for caption in captions:
            for run in found._runs(_words(caption)):
                found.ends[run[-1]] += 1
                found.in_runs.update(run)
        return found

    def of(self, captions: Iterable[str], most: int) -> tuple[str, ...]:
        """The phrases of an image's captions, one for each noun, those that most captions name first."""
        seen: Counter[str] = Counter()
        by_noun: dict[str, Counter[str]] = {}
        for caption in captions:
            phrases = list(dict.fromkeys(self.phrases(caption)))
            for phrase in phrases:
                noun = phrase.rpartition(" ")[2]
                by_noun.setdefault(noun, Counter())[phrase] += 1
            seen.update({phrase.rpartition(" ")[2] for phrase in phrases})
        order = list(by_noun)  # first named, first of equals
        nouns = sorted(order, key=lambda noun: (-seen[noun], order.index(noun)))[:most]
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
        if word in FUNCTION_WORDS or not word[0].isalpha():
            return False
        if behind_nominal and self.counts[word] < RARE:
            return True
        return self.after_determiner[word] >= AFTER_DETERMINER * max(1, self.counts[word])

    def _ends_runs(self, word: str) -> bool:
        return self.in_runs[word] < RARE or self.ends[word] >= ENDS_RUNS * self.in_runs[word]


def _words(caption: str) -> list[str]:
    return WORD.findall(caption.lower())
