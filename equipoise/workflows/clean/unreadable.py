"""Captions of pictures that cannot be read: judged by a grey one, and dropped whatever that says.

Every run that decides has had all records judged, here or by processes that told what they met, so that one which goes
on where another stopped knows the same pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from equipoise.data.keep.file import UNREADABLE, KeepTable
from equipoise.data.source import Source
from equipoise.data.unreadable_pictures import BlankPictures

REASON = "its picture cannot be read"
BELOW_ALL = -2.0  # of P(right) and of cosines, so that a rule which drops a share drops these first


def without_picture(source: Source, owners: np.ndarray) -> np.ndarray:
    """Bool [M]: whether each caption's picture could not be read; `owners` [M] are the captions' records."""
    unread: frozenset[int] = source.unreadable if isinstance(source, BlankPictures) else frozenset()
    return np.isin(owners, sorted(unread))


def said_of(table: KeepTable, gone: np.ndarray) -> KeepTable:
    """The table with what is said of the captions without a picture."""

    def said(words: Sequence[str], instead: str) -> list[str]:
        return [instead if is_gone else word for word, is_gone in zip(words, gone.tolist(), strict=True)]

    kinds = table.kinds or [""] * len(table)
    return replace(table, reasons=said(table.reasons, REASON), kinds=said(kinds, UNREADABLE))
