"""One caption of each record of a batch, drawn anew at every visit.

Where a tokenizer leaves nothing of the one that was drawn (WordPiece drops marks without a letter, signs that are not
seen and control characters) the next of the record's captions that has words is read; a record without one is bad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise.data.source import Pair
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import UserError


class DrawnCaptions:
    """The captions that `draws`, numbers from [0, 1) by place in the batch, pick."""

    def __init__(self, draws: Sequence[float], tokens: CaptionTokenizer):
        self._drawn, self._tokens = list(draws), tokens
        self.draws = list(draws)  # of those that are read

    def of(self, place: int, pair: Pair) -> str:
        return pair.captions[_number(pair, self.draws[place])]

    def faults(self, pairs: Mapping[int, Pair]) -> dict[int, str]:
        """What is wrong with the captions of records, by their places; the draws of all others are settled."""
        faults: dict[int, str] = {}
        for place in pairs:
            self.draws[place] = self._drawn[place]  # that of a record before, which was bad, is no matter
        empty = self._tokens.leaves_nothing([self.of(place, pair) for place, pair in pairs.items()])
        for place in (place for place, nothing in zip(pairs, empty, strict=True) if nothing):
            captions = pairs[place].captions
            first = _number(pairs[place], self._drawn[place])
            useless = self._tokens.leaves_nothing(captions)
            order = [(first + step) % len(captions) for step in range(len(captions))]
            chosen = next((number for number in order if not useless[number]), None)
            if chosen is None:
                faults[place] = no_words(captions)
            else:
                self.draws[place] = (chosen + 0.5) / len(captions)
        return faults


def no_words(captions: Sequence[str]) -> str:
    """Why a record is bad of whose captions a tokenizer leaves nothing."""
    return f"the tokenizer leaves nothing of the caption {captions[0][:40]!a}"


def _number(pair: Pair, draw: float) -> int:
    if not pair.captions:
        raise UserError(f"record {pair.key} has no caption; give it one or leave it out")
    return int(draw * len(pair.captions))
