"""A set of pictures with classes, wherever it was read from: what zero-shot classification needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.data.files.image_source import Pictures
from equipoise.data.files.picture_folder import PictureRecords
from equipoise.data.files.records import Records
from equipoise.types import UserError


@dataclass(frozen=True)
class ClassSet:
    """Pictures, the number of the class of each, and the classes' names and prompts."""

    source: Pictures
    labels: tuple[int, ...]
    names: tuple[str, ...]
    templates: tuple[str, ...]

    def __post_init__(self) -> None:
        assert len(self.source) == len(self.labels)


def class_set(
    records: Records, labels: Sequence[int], names: Sequence[str], templates: Sequence[str], where: str
) -> ClassSet:
    """The set; raises UserError for one that is empty, or a class of which there is no picture."""
    if not labels:
        raise UserError(f"{where}: there is no picture in it; this split is empty")
    present = set(labels)
    if absent := [name for number, name in enumerate(names) if number not in present]:
        raise UserError(
            f'{where}: there is no picture of the class "{absent[0]}"'
            f"{f' and {len(absent) - 1:,} others' if len(absent) > 1 else ''}, of {len(names):,} classes; complete the "
            "data, or take the class out of the list"
        )
    return ClassSet(Pictures(records), tuple(labels), tuple(names), tuple(templates))


def listed_set(
    files: Sequence[tuple[Path, int]], names: Sequence[str], templates: Sequence[str], where: str
) -> ClassSet:
    """A set of picture files, each with the number of its class."""
    records = PictureRecords([(path, f"{path.parent.name}/{path.name}") for path, _ in files], captioned=False)
    if records.faults:
        raise UserError(str(records.faults[0]))
    return class_set(records, [label for _, label in files], names, templates, where)
