"""Data re-encoded once to the resolution it is trained at, as shards, so that each epoch reads and decodes less.

The shorter side of each image becomes `size` where it is longer; an upright JPEG that is small already keeps its bytes.
What lies beside an image in a shard (`.txt`, `.json`, `.cls`, regions) is copied as it is. A record that cannot be
decoded is left out and named in `left_out.json`. A shard appears under its name only when it is whole: a run that was
stopped goes on where it left off.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.data.bad_records import BadRecord, Fault, printable
from equipoise.data.encoded_image import EncodedImage, encoded
from equipoise.data.files.records import IMAGES, Records
from equipoise.data.jpeg import START
from equipoise.io.atomic import write_text
from equipoise.io.json_files import read_json_table
from equipoise.types import UserError

LEFT_OUT = "left_out.json"


@dataclass(frozen=True)
class Prepare:
    size: int = 256  # pixels of the shorter side
    quality: int = 90  # of the JPEGs
    per_shard: int = 1000

    def __post_init__(self) -> None:
        if min(self.size, self.per_shard) < 1 or not 1 <= self.quality <= 100:
            raise UserError(f"prepare needs a size and per_shard of at least 1 and a quality from 1 to 100, not {self}")


def resized(picture: EncodedImage, size: int, quality: int) -> bytes:
    """A JPEG whose shorter side is `size` pixels, or as many as there are."""
    shorter = min(picture.height, picture.width)
    if shorter <= size and picture.data.startswith(START) and picture.orientation == 1 and picture.header:
        picture.check()
        return picture.data
    scale = min(1.0, size / shorter)
    image = picture.shrunk(round(picture.width * scale), round(picture.height * scale))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def samples(
    records: Records, indices: Iterable[int], settings: Prepare, left_out: Path
) -> Iterator[dict[str, str | bytes]]:
    """The files of a shard; at the end, what could not be used is added to `left_out`."""
    faults: list[Fault] = []
    seen: set[str] = set()
    for index in indices:
        try:
            picture = encoded(records.image(index), records.place(index))
            data = resized(picture, settings.size, settings.quality)
        except BadRecord as error:
            faults.append(error.fault)
            continue
        key = entry_name(records.key(index))
        key = f"{key}-{index}" if key in seen else key
        seen.add(key)
        yield {"__key__": key, "jpg": data, **records.side_files(index)}
    add_faults(left_out, faults)  # before the shard gets its name: once it has, nobody looks here again


def entry_name(key: str) -> str:
    """A name without folders and dots, which would end it."""
    return re.sub(r"[^\w-]+", "_", without_ending(key))


def without_ending(key: str) -> str:
    """A key without the ending of a picture, which the keys of tables and folders have."""
    stem, dot, ending = key.rpartition(".")
    return stem if dot and ending.lower() in IMAGES else key


def note_of(records: Records, settings: Prepare) -> dict[str, Any]:
    """What the shards hold; the first and last records stand for the data itself."""
    if not len(records):
        raise UserError("there are no usable records to prepare; `equipoise data check` says what is wrong with them")
    ends = [printable(records.place(index)) for index in (0, len(records) - 1)]
    return {"records": len(records), **vars(settings), "first and last": ends}


def add_faults(path: Path, faults: list[Fault]) -> None:
    """Name records that were left out, with what is wrong with them, beside those that were before."""
    if faults:
        known = read_json_table(path) if path.exists() else {}
        write_left_out(path, known | {fault.place: fault.reason for fault in faults})


def write_left_out(path: Path, reasons: Mapping[str, str]) -> None:
    write_text(path, json.dumps(reasons, indent=2, ensure_ascii=False) + "\n")
