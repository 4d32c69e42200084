"""The grammar read back: from a caption's words to the statement it makes.

    caption   = [lead] ( "a single" noun-phrase | counted | clause { ("," | "and" | ", and") clause } )
    counted   = number things [ "," (number | "both" | "all") "of them" (adjectives | noun-phrase) ]
    clause    = item [ ["is"] relation item { [","] "which is" relation item } ]
              | item "with" item relation-to-it { ("," | "and") item relation-to-it }
    item      = [number] noun-phrase | "something" [adjectives]
    noun-phrase = [article] {adjective} noun [after-noun]

Tolerant of case, a final full stop, synonyms and missing articles; any other word raises an error that names it.
"""

from __future__ import annotations

from functools import lru_cache

from equipoise.data.scenes.language.lexicon import Cursor, Word
from equipoise.data.scenes.language.meaning import ANYTHING, Meaning, Phrase, true_of
from equipoise.data.scenes.scene import Scene


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Meaning:
    """The statement a caption makes."""
    return _Reader(text).caption()


def matches(scene: Scene, caption: str | Meaning) -> bool:
    """Whether the caption is true of the scene."""
    return true_of(parse(caption) if isinstance(caption, str) else caption, scene)


class _Reader(Cursor):
    """Collects the phrases and relations of a caption."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.phrases: list[Phrase] = []
        self.relations: list[tuple[int, str, int]] = []

    def caption(self) -> Meaning:
        count: int | None = None
        self.accept("lead")
        if self.accept("single"):
            count = 1
            self.phrases.append(self.noun_phrase())
        elif self.counts_everything():
            count = self.counted()
        else:
            self.clauses()
        if self.peek().part != "end":
            raise self.lost()
        return Meaning(tuple(self.phrases), tuple(self.relations), count)

    def counts_everything(self) -> bool:
        number, things, after = (self.peek(ahead) for ahead in range(3))
        return number.part == "number" and things.value == ANYTHING and after.part != "after noun"

    def counted(self) -> int:
        count = self.number()
        self.expect("noun")
        if self.accept(","):
            share = count if self.accept("all") else self.number()
            self.expect("of them")
            self.phrases += [self.predicate()] * share
        return count

    def clauses(self) -> None:
        centre: int | None = None  # the thing before the last "with": more things to its left or above it may follow
        while True:
            item = self.item()
            if centre is not None and self.peek().part == "relation to it":
                self.relate(item, centre)
            elif self.accept("with"):
                centre = item
                self.relate(self.item(), centre)
            else:
                centre = None
                if self.peek().part in ("is", "relation"):
                    self.chain(item)
            comma, conjunction = self.accept(","), self.accept("and")
            if not comma and not conjunction:
                return

    def relate(self, item: int, centre: int) -> None:
        self.relations.append((item, str(self.expect("relation to it").value), centre))

    def chain(self, first: int) -> None:
        self.accept("is")
        while True:
            relation = str(self.expect("relation").value)
            second = self.item()
            self.relations.append((first, relation, second))
            if self.peek(1).part == "which is":
                self.accept(",")
            if not self.accept("which is"):
                return
            first = second

    def item(self) -> int:
        """One thing, or several alike, which then stand alone; gives the number of its (first) phrase."""
        number = self.number() if self.peek().part == "number" else 1
        phrase = self.adjectives() if self.accept("something") else self.noun_phrase()
        if number > 1 and self.peek().part not in (",", "and", "end"):
            raise self.lost()
        self.phrases += [phrase] * number
        return len(self.phrases) - number

    def noun_phrase(self) -> Phrase:
        self.accept("article")
        phrase = ANYTHING
        while adjective := self.accept("adjective"):
            phrase = self.narrowed(phrase, adjective)
        return self.noun(phrase)

    def noun(self, phrase: Phrase) -> Phrase:
        phrase = self.narrowed(phrase, self.expect("noun"))
        after = self.accept("after noun")
        return self.narrowed(phrase, after) if after else phrase

    def predicate(self) -> Phrase:
        """What is said after "of them": "round", "a fish", "red stars"."""
        if self.peek().part in ("article", "end"):
            return self.noun_phrase()
        phrase = self.adjectives()
        return self.noun(phrase) if self.peek().part == "noun" else phrase

    def adjectives(self) -> Phrase:
        """ "round", "small and red": what is said where the thing was named already. Nothing said leaves all open."""
        phrase = ANYTHING
        while word := self.accept("adjective") or self.accept("after noun"):
            phrase = self.narrowed(phrase, word)
            if self.peek().part == "and" and self.peek(1).part == "adjective":
                self.accept("and")
        return phrase

    def narrowed(self, phrase: Phrase, word: Word) -> Phrase:
        """The phrase with one more word taken into account."""
        more = word.value
        assert isinstance(more, Phrase)
        if (more.texture and phrase.texture) or (more.size and phrase.size):
            raise self.error(f'"{word.text}" says again what another word of the same thing said')
        return Phrase(
            _both(phrase.shapes, more.shapes),
            _both(phrase.colours, more.colours),
            phrase.texture or more.texture,
            phrase.size or more.size,
        )

    def number(self) -> int:
        value = self.expect("number").value
        assert isinstance(value, int)
        return value


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return one & other if one is not None and other is not None else one if other is None else other
