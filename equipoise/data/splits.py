"""The parts of a data set: to train on, to watch and choose by, and to report."""

from __future__ import annotations

from equipoise.types import UserError

SPLITS = ("train", "validation", "test")


def require_split(split: str) -> None:
    if split not in SPLITS:
        raise UserError(f'there is no split "{split}"; choose one of {", ".join(SPLITS)}')
