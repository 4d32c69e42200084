"""Image-to-image sets: queries, a database, and which pictures of it show the same thing.

Revisited Oxford and Paris (Radenović et al. 2018, "Revisiting Oxford and Paris"), in ROOT/roxford5k:

    gnd_roxford5k.json or .pkl    imlist, qimlist, gnd: for each query bbx (what is cut out), easy, hard, junk
    jpg/NAME.jpg

A .pkl is read as plain data alone (`io/plain_pickle.py`). Copydays (Douze et al. 2009), in ROOT/copydays:

    original/200000.jpg ...       the database, with the pictures of distractors/ where there are any
    strong/200001.jpg ...         attacked copies, and those of other folders (jpegqual/75, crops/50): the queries, each
                                  folder a block. The copy 2000xx is of the original 2000yy: all but the last two
                                  digits are the same.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equipoise.data.bad_records import BadRecord
from equipoise.data.encoded_image import encoded
from equipoise.data.files.image_source import Pictures
from equipoise.data.files.picture_folder import PictureRecords, pictures_in
from equipoise.data.source import Pair
from equipoise.io.json_files import read_json
from equipoise.io.plain_pickle import read_plain_pickle
from equipoise.types import UserError

Box = tuple[float, float, float, float]
WANTED = "the file that was published, gnd_NAME.pkl, or the same as JSON"


@dataclass(frozen=True)
class Truth:
    """Numbers of database pictures that a query shows: clearly, barely; and those that are not counted."""

    easy: tuple[int, ...]
    hard: tuple[int, ...] = ()
    junk: tuple[int, ...] = ()


@dataclass(frozen=True)
class InstanceSet:
    queries: Pictures
    database: Pictures
    truth: tuple[Truth, ...]
    graded: bool  # whether there are easy and hard ones; else all are `easy`
    blocks: tuple[str, ...] = ()  # of copies: the folder of each query, by which results are told apart


class CutRecords(PictureRecords):
    """Picture files of which a part is shown."""

    def __init__(self, files: list[tuple[Path, str]], boxes: Sequence[Box | None]):
        super().__init__(files, captioned=False)
        self.boxes = boxes

    def image(self, index: int) -> bytes:
        content, box = super().image(index), self.boxes[index]
        if box is None:
            return content
        pixels = encoded(content, self.place(index)).pixels()
        x0, y0, x1, y1 = (round(edge) for edge in box)
        part = pixels[max(y0, 0) : y1, max(x0, 0) : x1]
        if not part.size:
            raise BadRecord(self.place(index), f"its box {box} lies outside the picture")
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(part)).save(buffer, format="PNG", compress_level=1)
        return buffer.getvalue()

    def read(self, index: int) -> tuple[Pair, bytes]:
        return self.pair(index), self.image(index)


def read_revisited(folder: Path) -> InstanceSet:
    """Revisited Oxford or Paris, with the ground truth that lies in its folder."""
    file = next((path for kind in ("json", "pkl") for path in sorted(folder.glob(f"gnd_*.{kind}"))), None)
    if file is None:
        raise UserError(f"{folder}: there is no gnd_*.json or gnd_*.pkl in it; give {WANTED}")
    table = read_json(file) if file.suffix == ".json" else read_plain_pickle(file)
    database, queries, truth = _parts(table, file)
    pictures = PictureRecords([(_picture(folder, name), name) for name in database], captioned=False)
    asked = CutRecords(
        [(_picture(folder, name), name) for name in queries], [_box(one.get("bbx"), file) for one in truth]
    )
    known = tuple(
        Truth(*(_numbers(one, key, len(database), file) for key in ("easy", "hard", "junk"))) for one in truth
    )
    return InstanceSet(Pictures(asked), Pictures(pictures), known, graded=True)


def _parts(table: Any, file: Path) -> tuple[list[str], list[str], list[dict[str, Any]]]:
    fields = [table.get(key) if isinstance(table, dict) else None for key in ("imlist", "qimlist", "gnd")]
    database, queries, truth = ([] if one is None else list(one) for one in fields)
    if not database or not queries or len(queries) != len(truth) or not all(isinstance(one, dict) for one in truth):
        raise UserError(f"{file}: it has no imlist, qimlist and gnd with an entry for each query; give {WANTED}")
    return [str(name) for name in database], [str(name) for name in queries], truth


def _numbers(entry: dict[str, Any], key: str, count: int, file: Path) -> tuple[int, ...]:
    values = entry.get(key, ())
    try:
        numbers = tuple(int(value) for value in values)
    except (TypeError, ValueError):
        numbers = (-1,)
    if any(not 0 <= number < count for number in numbers):
        raise UserError(f'{file}: "{key}" of a query names a picture that is not among the {count:,} of imlist')
    return numbers


def _box(value: Any, file: Path) -> Box | None:
    if value is None:
        return None
    edges = [float(edge) for edge in value] if isinstance(value, list | tuple | np.ndarray) else []
    if len(edges) != 4:
        raise UserError(f"{file}: the bbx of a query must have four numbers; give {WANTED}")
    return edges[0], edges[1], edges[2], edges[3]


def _picture(folder: Path, name: str) -> Path:
    return folder / "jpg" / (name if Path(name).suffix else f"{name}.jpg")


def read_copydays(folder: Path) -> InstanceSet:
    """Copydays: every attacked copy looks for its original, among the originals and the distractors."""
    originals = sorted(pictures_in(folder / "original"))
    distractors = sorted(pictures_in(folder / "distractors"))
    attacked = [
        picture
        for place in sorted(folder.iterdir())
        if place.is_dir() and place.name not in ("original", "distractors")
        for picture in sorted(pictures_in(place))
    ]
    if not originals or not attacked:
        raise UserError(f"{folder}: pictures are missing in original/ or in folders of copies, such as strong/")
    number = {_block(path): place for place, path in enumerate(originals)}
    if len(number) < len(originals):
        raise UserError(f"{folder / 'original'}: two originals have one number but for the last two digits")
    if lost := next((path for path in attacked if _block(path) not in number), None):
        raise UserError(f"{lost}: there is no original of this copy, {_block(lost)}00.jpg, in {folder / 'original'}")
    pictures = PictureRecords(_keyed([*originals, *distractors], folder), captioned=False)
    asked = PictureRecords(_keyed(attacked, folder), captioned=False)
    truth = tuple(Truth((number[_block(path)],)) for path in attacked)
    blocks = tuple(path.parent.relative_to(folder).as_posix() for path in attacked)
    return InstanceSet(Pictures(asked), Pictures(pictures), truth, graded=False, blocks=blocks)


def _keyed(files: Sequence[Path], folder: Path) -> list[tuple[Path, str]]:
    return [(path, path.relative_to(folder).as_posix()) for path in files]


def _block(path: Path) -> str:
    return path.stem[:-2]
