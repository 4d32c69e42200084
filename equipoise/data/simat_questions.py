"""Questions of embedding arithmetic: this picture, but with one word of what it shows replaced by another.

Couairon et al. 2022, "Embedding Arithmetic of Multimodal Queries for Image Retrieval" (SIMAT). A picture of a dog on a
pillow, "pillow" -> "rug": find, among the pictures of a database, one of a dog on a rug. An oracle says which pictures
show what a caption says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from equipoise.types import UserError

RIGHT = 0.5  # of the oracle: a picture shows what a caption says from above this on
DEV, TEST = "dev", "test"
SPLITS = (DEV, TEST)

Triplet = tuple[str, str, str]  # subject, relation, object; the last two empty where a thing stands alone


@dataclass(frozen=True)
class Transformation:
    number: int  # transfo_id
    source: int  # place of the picture in the database
    field: str  # which part of what it shows is replaced: subj, rel, obj; colour, shape, relation
    value: str  # the word that goes
    target: str  # the word that comes
    caption: int  # number of the caption that is to be true of what is found
    alike: int = 1  # norm2: how many transformations replace this value; they share its weight
    is_test: bool = False

    @property
    def split(self) -> str:
        return TEST if self.is_test else DEV


@dataclass(frozen=True)
class Oracle:
    """How well each picture shows what each caption says."""

    name: str
    scores: Tensor  # [N, C], numbers or bool; more than RIGHT is right


@dataclass(frozen=True)
class Transformations:
    """The transformations of SIMAT, the database they are looked up in, and the oracle that judges."""

    asked: tuple[Transformation, ...]
    keys: tuple[str, ...]  # of the pictures of the database, in its order
    triplets: tuple[Triplet, ...]  # what each of them shows, in words
    captions: tuple[str, ...]
    oracle: Oracle

    def __post_init__(self) -> None:
        assert len(self.triplets) == len(self.keys)
        if tuple(self.oracle.scores.shape) != (len(self.keys), len(self.captions)):
            raise UserError(
                f"{self.oracle.name} has the shape {list(self.oracle.scores.shape)}, but there are {len(self.keys):,} "
                f"pictures and {len(self.captions):,} captions: give one row a picture and one column a caption"
            )
        if not self.asked:
            raise UserError("there are no transformations; give at least one")
        if len(self.keys) < 2:
            raise UserError("the database has fewer than two pictures, so nothing but the source could be found")

    @property
    def words(self) -> tuple[str, ...]:
        """Every value and target once."""
        return tuple(dict.fromkeys(word for one in self.asked for word in (one.value, one.target)))

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.field for one in self.asked))

    def of(self, split: str) -> tuple[Transformation, ...]:
        """The transformations of one split, dev or test."""
        return tuple(one for one in self.asked if one.split == split)


def counted(asked: Sequence[Transformation]) -> tuple[Transformation, ...]:
    """The transformations with `alike` filled in as in norm2 of the published table: over both splits together."""
    often = Counter(one.value for one in asked)
    return tuple(replace(one, alike=often[one.value]) for one in asked)
