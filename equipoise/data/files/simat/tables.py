"""The tables of SIMAT, as github.com/facebookresearch/SIMAT has them in `simat_db`.

    triplets.csv   region_id, subj, rel, obj, dataset_id      the pictures of the database; dataset_id is their order
    transfos.csv   transfo_id, region_id, field, value, target, target_ids, norm2, is_test
    captions.txt   one per line; target_ids counts them from 0

Couairon et al. 2022. A source is found by its region_id in triplets.csv: the dataset_id that transfos.csv has as well
is of another order, and an earlier program that went by it scored other pictures. What else the tables hold is left
alone. Whoever judges is in `oracle.py`, the pictures in `images.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.data.files.captions import has_surrogates
from equipoise.data.files.simat.oracle import read_oracle
from equipoise.data.files.table_columns import read_columns
from equipoise.data.simat_questions import Transformation, Transformations, Triplet
from equipoise.types import UserError

TRIPLETS, TRANSFOS, CAPTIONS = "triplets.csv", "transfos.csv", "captions.txt"
PARTS = ("subj", "rel", "obj")  # of a triplet
FIELDS = (*PARTS, "colour", "shape", "relation")  # of a transformation; the last three are those of scenes
ADVICE = "give the tables of SIMAT's simat_db (docs/simat.md)"
TRUTH = {"True": True, "False": False}


@dataclass(frozen=True)
class SimatRow:
    """A line of a table, whose mistakes are named by file, line and column."""

    path: Path
    line: int
    values: dict[str, str]

    def wrong(self, column: str, said: str) -> UserError:
        return UserError(f'{self.path}, line {self.line}: the column "{column}" {said}')

    def text(self, column: str) -> str:
        if not self.values[column]:
            raise self.wrong(column, "is empty; fill it or leave the line out")
        return self.values[column]

    def number(self, column: str, least: int = 0, below: int | None = None) -> int:
        value = self.values[column]
        if not value.isascii() or not value.isdigit() or len(value) > 18:
            raise self.wrong(column, f"is {value!r}; give a whole number from {least} up")
        if int(value) < least or (below is not None and int(value) >= below):
            room = f"from {least} up" if below is None else f"from {least} to {below - 1}"
            raise self.wrong(column, f"is {value}; give a number {room}")
        return int(value)

    def choice(self, column: str, options: Sequence[str]) -> str:
        if self.values[column] not in options:
            raise self.wrong(column, f"is {self.values[column]!r}; give one of {', '.join(options)}")
        return self.values[column]


def rows(path: Path, columns: Sequence[str]) -> Iterator[SimatRow]:
    """The lines of a table, every one with all the columns."""
    for line, fields in read_columns(path, columns, advice=ADVICE):
        lacking = [name for name, field in zip(columns, fields, strict=True) if field is None]
        if lacking:
            raise UserError(f'{path}, line {line}: there is no column "{lacking[0]}" in this line; {ADVICE}')
        garbled = [name for name, field in zip(columns, fields, strict=True) if has_surrogates(str(field))]
        if garbled:
            raise UserError(f'{path}, line {line}: the column "{garbled[0]}" is not UTF-8 text; {ADVICE}')
        yield SimatRow(path, line, {name: str(field).strip() for name, field in zip(columns, fields, strict=True)})


def read_simat(folder: Path, oracle: str = "") -> Transformations:
    """All transformations, dev and test. `oracle` is "exact", a file, or empty: the one in the folder."""
    regions, triplets = _database(folder / TRIPLETS)
    captions = _captions(folder / CAPTIONS)
    places = {region: place for place, region in enumerate(regions)}
    asked = _transformations(folder / TRANSFOS, places, triplets, len(captions))
    judge = read_oracle(folder, oracle, asked, triplets, len(captions))
    return Transformations(asked, tuple(map(str, regions)), triplets, captions, judge)


def _database(path: Path) -> tuple[list[int], tuple[Triplet, ...]]:
    """Regions and what they show, by dataset_id."""
    found: dict[int, tuple[int, Triplet]] = {}
    known: set[int] = set()
    for row in rows(path, ("region_id", *PARTS, "dataset_id")):
        region, place = row.number("region_id"), row.number("dataset_id")
        for column, number, taken in (("region_id", region, known), ("dataset_id", place, found)):
            if number in taken:
                raise row.wrong(column, f"is {number}, which an earlier line has; give each its own")
        known.add(region)
        subject, relation, thing = row.text("subj"), row.values["rel"], row.values["obj"]
        found[place] = region, (subject, relation, thing)
    missing = next((place for place in range(len(found)) if place not in found), None)
    if missing is not None:
        raise UserError(f"{path}: no line has the dataset_id {missing}; number the {len(found):,} pictures from 0")
    ordered = [found[place] for place in range(len(found))]
    return [region for region, _ in ordered], tuple(triplet for _, triplet in ordered)


def _captions(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {ADVICE}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}); {ADVICE}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise UserError(f"{path}, line {number}: this is no caption but empty; write one, for lines are counted")
    return tuple(lines)


def _transformations(
    path: Path, places: dict[int, int], triplets: Sequence[Triplet], captions: int
) -> tuple[Transformation, ...]:
    columns = ("transfo_id", "region_id", "field", "value", "target", "target_ids", "norm2", "is_test")
    asked: dict[int, Transformation] = {}
    for row in rows(path, columns):
        number, region = row.number("transfo_id"), row.number("region_id")
        if number in asked:
            raise row.wrong("transfo_id", f"is {number}, which an earlier line has; give each its own")
        if region not in places:
            raise row.wrong("region_id", f"is {region}, which {TRIPLETS} does not have; give both of one data set")
        field, value = row.choice("field", FIELDS), row.text("value")
        shown = triplets[places[region]]
        if field in PARTS and shown[PARTS.index(field)] != value:
            raise row.wrong(
                "value", f"is {value!r}, but the {field} of region {region} is {shown[PARTS.index(field)]!r}"
            )
        asked[number] = Transformation(
            number, places[region], field, value, row.text("target"), row.number("target_ids", below=captions),
            row.number("norm2", least=1), TRUTH[row.choice("is_test", tuple(TRUTH))],
        )  # fmt: skip
    if not asked:
        raise UserError(f"{path} has no transformations; {ADVICE}")
    return tuple(asked.values())
