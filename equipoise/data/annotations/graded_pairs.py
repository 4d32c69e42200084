"""Pairs that people graded by how alike they are: Crisscrossed Captions (CxC) and files of its form.

    sits_test.csv   caption,image,agg_score,sampling_method      a caption and a picture
    sis_test.csv    image1,image2,agg_score,sampling_method      two pictures
    sts_test.csv    caption1,caption2,agg_score,sampling_method  two captions

Parekh et al. 2021, "Crisscrossed Captions: Extended Intramodal and Intermodal Semantic Similarity Judgments for
MS-COCO".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from equipoise.data.annotations.caption_ids import plain_id
from equipoise.data.annotations.relevance_files import csv_rows, number_of

SCORE = ("agg_score", "score", "grade")
KINDS: dict[str, tuple[str, str]] = {"sits": ("caption", "image"), "sis": ("image", "image"), "sts": ("caption",) * 2}
WANTED = "a file of Crisscrossed Captions, such as sits_test.csv"


@dataclass(frozen=True)
class GradedPairs:
    """Ids of both ends of each pair, and its grade."""

    kind: str  # one of KINDS
    first: tuple[str, ...]
    second: tuple[str, ...]
    grades: tuple[float, ...]


def read_graded(file: Path, kind: str) -> GradedPairs:
    """The pairs of a file; the queries of the protocol are the first ends."""
    one, other = KINDS[kind]
    names = ((one,), (other,)) if one != other else ((f"{one}1",), (f"{other}2",))
    first, second, grades = [], [], []
    for line, row, columns in csv_rows(file, (*names, SCORE), ("sampling_method",), WANTED):
        first.append(plain_id(row[columns[0]]))
        second.append(plain_id(row[columns[1]]))
        grades.append(number_of(row[columns[2]], file, line, "score"))
    return GradedPairs(kind, tuple(first), tuple(second), tuple(grades))
