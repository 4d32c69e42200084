"""Rows of a table that has a column for the split each is of.

    train         train, training, and restval (Karpathy's further training pictures of MSCOCO)
    validation    val, valid, validation, dev
    test          test, testing

Where no row is of the split that is asked for, validation is a share of the training rows, and the test is what
validation is, as for files without such a column. A table that is given for the test alone, and names none, is all of
it the test.
"""

from __future__ import annotations

from equipoise.data.files.captions import BadText
from equipoise.data.files.file_source import OWN
from equipoise.data.files.table_join import TableRow
from equipoise.types import UserError

NAMES = {
    "train": ("train", "training", "restval", "trainrestval"),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
SPLIT_OF = {name: split for split, names in NAMES.items() for name in names}


def is_split(text: object) -> bool:
    return isinstance(text, str) and text.strip().lower() in SPLIT_OF


def split_named(text: str, column: str) -> str:
    """The split that a field names. Raises BadText."""
    if not is_split(text):
        raise BadText(f'the column "{column}" is {text[:40]!r}, and not one of {", ".join(SPLIT_OF)}')
    return SPLIT_OF[text.strip().lower()]


def rows_of_split(rows: list[TableRow], split: str, *, test_alone: bool) -> tuple[list[int], str]:
    """The numbers of the rows that make a split, and whether they are its own, or a share of them is held out or
    kept."""
    here = {row.split for row in rows}
    if split in here:
        return _numbers(rows, split), "kept" if split == "train" and "validation" not in here else OWN
    if split == "test" and test_alone and "validation" not in here:
        return list(range(len(rows))), OWN
    if split == "test" and "validation" in here:
        return _numbers(rows, "validation"), ""
    if "train" not in here:
        raise UserError(
            f'no row of this table is of the split "{split}", only of {" and ".join(sorted(here)) or "none"}; name '
            f"another table with data.{split}, or leave the splits out with --set data.split=''"
        )
    return _numbers(rows, "train"), "held out"


def _numbers(rows: list[TableRow], split: str) -> list[int]:
    return [number for number, row in enumerate(rows) if row.split == split]
