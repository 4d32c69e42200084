"""Captions of tones, and what they say: every caption can be read back into the notes that it names."""

from __future__ import annotations

import re
from random import Random

from equipoise.data.tones.notes import PITCHES, RHYTHMS, TIMBRES, Note
from equipoise.types import UserError

ONE = ("{0}", "the sound of {0}", "a recording of {0}", "there is {0}")
TWO = ("{0}, then {1}", "first {0}, then {1}", "{0} followed by {1}", "the sound of {0} and then {1}", "{1} after {0}")
PHRASE = re.compile(rf"a ({'|'.join(PITCHES)}) ({'|'.join(TIMBRES)}) tone ({'|'.join(RHYTHMS)})")


def phrase(note: Note) -> str:
    return f"a {note.pitch} {note.timbre} tone {note.rhythm}"


def describe(notes: tuple[Note, ...], count: int, rng: Random) -> tuple[str, ...]:
    """So many captions of one or two notes, in different words as far as there are some."""
    ways = ONE if len(notes) == 1 else TWO
    drawn = [way for _ in range(-(-count // len(ways))) for way in rng.sample(ways, len(ways))]
    return tuple(way.format(*map(phrase, notes)) for way in drawn[:count])


def parse(caption: str) -> tuple[Note, ...]:
    """The notes that a caption names, in the order in which they are heard."""
    notes = tuple(Note(*found) for found in PHRASE.findall(caption))
    if not notes:
        raise UserError(f"{caption!r} is no caption of tones, so nobody can say of which sounds it is true")
    return notes[::-1] if " after " in caption else notes
