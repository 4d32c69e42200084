"""Questions about pictures with people's answers, as VQA has them, and the pictures they are about.

A question names its picture as its file does: by COCO's number (9), or by the key of a record. A record is found by its
key, by its name without folders and ending, or by the number that name ends in: 9 is 9.jpg, 000000000009.jpg and
train2014/COCO_train2014_000000000009.jpg alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from equipoise.types import UserError

KINDS = ("yes/no", "number", "other")  # of answers
PEOPLE = 10  # who answer a question of VQA
FEWEST = 4  # answers: with one left out, three can still agree
NUMBERED = re.compile(r"(?:COCO_\w+_)?0*(\d+)")


@dataclass(frozen=True)
class Question:
    number: int | str  # question_id
    image: int | str  # image_id
    text: str
    kind: str  # answer_type
    answers: tuple[str, ...]  # one per person
    topic: str = ""  # question_type: what it is about, where that is known


def image_places(questions: Sequence[Question], keys: Sequence[str], where: str) -> list[int]:
    """The place among the records with these keys of each question's picture; `where` is the questions' file."""
    known = _by_name(keys)
    places = []
    for one in questions:
        there = known.get(one.image, ()) or known.get(_number(str(one.image)), ())
        if len(there) != 1:
            reason = (
                f"none of the {len(keys):,} that the data has and that can be read; give data with it"
                if not there
                else f"two of the data's, {keys[there[0]]} and {keys[there[1]]}; leave one out"
            )
            raise UserError(f"{where}: question {one.number} is about picture {one.image}, which is {reason}")
        places.append(there[0])
    return places


def _by_name(keys: Sequence[str]) -> dict[int | str | None, list[int]]:
    known: dict[int | str | None, list[int]] = {}
    for place, key in enumerate(keys):
        stem = PurePosixPath(key).stem
        for name in dict.fromkeys((key, stem, _number(stem))):
            if name is not None:
                known.setdefault(name, []).append(place)
    return known


def _number(name: str) -> int | None:
    match = NUMBERED.fullmatch(name)
    return int(match[1]) if match else None
