"""When two answers to a question are the same, and how right an answer is: the rule of VQA.

Antol et al. 2015, "VQA: Visual Question Answering", §3, and the rule as visualqa.org publishes it. Of the ten people
asked, each is left out in turn; an answer that three of the other nine gave is right:

    accuracy(a) = 1/10 Σ_i min( |{ j ≠ i : a_j = a }| / 3, 1 )        0, 0.3, 0.6, 0.9, 1 for 0, 1, 2, 3, 4 and more

Before they are compared, answers are put into lower case; periods go, unless a digit follows; a comma between digits
goes, all other punctuation but apostrophe and colon becomes a space; number words up to ten become digits; a, an and
the go; a contraction without its apostrophe gets it back.

How we differ. The authors' program treats people's answers only where they disagree, by its punctuation rule alone, for
the published files hold them treated already; it removes a mark instead of replacing it where the same mark stands
beside a space somewhere in the answer, and removes all marks of an answer that has a comma between digits. We
follow the published words, for both sides. Its marks (not $, %, &, #, *) and its "none" for 0 are kept. The
contractions are a list of our own, which leaves out those that are words: well, were, shed, wed, id, its, lets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

MARKS = re.compile(r'[;/\[\]"{}()=+\\_\-><@`,?!]')
THOUSANDS = re.compile(r"(?<=\d),(?=\d)")
PERIOD = re.compile(r"\.(?!\d)")
NUMBERS = {
    "none": "0", "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4",
    "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10",
}  # fmt: skip
ARTICLES = ("a", "an", "the")
# beginnings and the ending each takes after an apostrophe
SHORTENED = (
    ("ai are ca could did does do had has have is might must need ought sha should was were wo would", "n't"),
    ("could might must should would i they we you who what where", "'ve"),
    ("he it they you who there where how", "'d"),
    ("it they you who what why how there", "'ll"),
    ("they you what why there", "'re"),
    ("he she that there what when where who why how someone somebody", "'s"),
    ("i", "'m"),
)
CONTRACTIONS = {
    (beginning + ending).replace("'", ""): beginning + ending
    for beginnings, ending in SHORTENED
    for beginning in beginnings.split()
} | {"oclock": "o'clock", "maam": "ma'am", "yall": "y'all", "twas": "'twas"}


@lru_cache(maxsize=1 << 18)
def normalised(answer: str) -> str:
    """The answer in the form in which it is compared; empty where nothing is left of it."""
    text = MARKS.sub(" ", THOUSANDS.sub("", PERIOD.sub("", answer.lower())))
    words = [NUMBERS.get(word, word) for word in text.split()]
    return " ".join(CONTRACTIONS.get(word, word) for word in words if word not in ARTICLES)


def accuracies(answers: Sequence[str]) -> dict[str, float]:
    """How right each answer is that somebody gave, the most frequent first; all others score 0."""
    counts = Counter(map(normalised, answers))
    counts.pop("", None)
    return {answer: _accuracy(count, len(answers)) for answer, count in counts.most_common()}


def _accuracy(count: int, people: int) -> float:
    """Mean over who is left out, where `count` of `people` gave this answer: one of these, or another person."""
    without_one_of_them, without_another = min((count - 1) / 3, 1), min(count / 3, 1)
    return (count * without_one_of_them + (people - count) * without_another) / people
