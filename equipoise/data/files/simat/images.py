"""The pictures of SIMAT's database: regions of Visual Genome, cut out of its pictures or ready in files of their own.

    retrieval_db.tsv   region_id, image_id, bbox      "x1,y1,x2,y2" in pixels of Visual Genome's picture
    VG_100K/2378586.jpg                               a picture by its image_id
    images/images/4.png                               a region by its region_id, as SIMAT's own program writes it

Files are looked for in the folder given and in the folders in it, among what those hold: no name in a table is a path.
A box that reaches beyond its picture is cut at the edge (SIMAT's program fills the rest with black).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from equipoise.data.bad_records import BadRecord
from equipoise.data.encoded_image import encoded
from equipoise.data.files.image_folder import read_picture
from equipoise.data.files.records import IMAGES
from equipoise.data.files.simat.tables import ADVICE, SimatRow, rows
from equipoise.data.preprocess import evaluation_box
from equipoise.data.source import Pair
from equipoise.types import UserError

REGIONS = "retrieval_db.tsv"
Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class ImageBox:
    """A picture, or the part of it within a box."""

    path: Path
    place: str  # named when something is wrong
    box: Box | None = None

    def square(self, size: int) -> Tensor:
        """uint8 [3, size, size]: CLIP's evaluation crop of just this part."""
        picture = encoded(read_picture(self.path, self.place), self.place)
        if self.box is None:
            return picture.square(size)
        x0, y0, x1, y1 = self.box
        part = picture.pixels()[y0:y1, x0:x1]
        if not part.size:
            raise BadRecord(
                self.place, f"the box {self.box} lies outside the {picture.width} x {picture.height} picture"
            )
        box = evaluation_box(part.shape[0], part.shape[1], size)
        pixels = Image.fromarray(part).resize((size, size), Image.Resampling.BICUBIC, box=box)
        return torch.from_numpy(np.array(pixels)).permute(2, 0, 1)


class Cuts:
    """The pictures of a database in its order, as a source."""

    def __init__(self, cuts: Sequence[ImageBox], keys: Sequence[str], captions: Sequence[str]) -> None:
        self.cuts, self.keys, self.captions = cuts, keys, captions

    def __len__(self) -> int:
        return len(self.cuts)

    def pair(self, index: int) -> Pair:
        return Pair(self.keys[index], (self.captions[index],))

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return torch.stack([self.cuts[index].square(size) for index in indices]).to(device)


def regions_of_pictures(tables: Path, pictures: Path, keys: Sequence[str]) -> list[ImageBox]:
    """Each region cut out of its picture of Visual Genome."""
    wanted, found = dict.fromkeys(keys), _by_name(pictures)
    cuts: dict[str, ImageBox] = {}
    for row in rows(tables / REGIONS, ("region_id", "image_id", "bbox")):
        region, image = str(row.number("region_id")), str(row.number("image_id"))
        if region in wanted:
            where = f"{row.path}, line {row.line}"
            cuts[region] = ImageBox(_only(found, image, pictures, where), where, _box(row))
    missing = next((key for key in keys if key not in cuts), None)
    if missing is not None:
        raise UserError(f"{tables / REGIONS} has no region {missing}, which the database has; {ADVICE}")
    return [cuts[key] for key in keys]


def ready_regions(folder: Path, keys: Sequence[str]) -> list[ImageBox]:
    """Each region in a file of its own."""
    found = _by_name(folder)
    paths = [_only(found, key, folder, f"region {key}") for key in keys]
    return [ImageBox(path, str(path)) for path in paths]


def _box(row: SimatRow) -> Box:
    parts = row.values["bbox"].split(",")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts):
        raise row.wrong("bbox", f'is {row.values["bbox"]!r}; give "x1,y1,x2,y2" in whole pixels')
    x0, y0, x1, y1 = map(int, parts)
    if x1 <= x0 or y1 <= y0:
        raise row.wrong("bbox", f"is {row.values['bbox']}, which is empty; give x1 < x2 and y1 < y2")
    return x0, y0, x1, y1


def _by_name(folder: Path) -> dict[str, list[Path]]:
    """Pictures by their name without ending."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; give the one of the pictures")
    found: dict[str, list[Path]] = {}
    for path in _files(folder):
        found.setdefault(path.stem, []).append(path)
    return found


def _files(folder: Path) -> Iterator[Path]:
    for inner in sorted(folder.iterdir()):
        for path in sorted(inner.iterdir()) if inner.is_dir() else (inner,):
            if path.suffix.lower().removeprefix(".") in IMAGES and not path.name.startswith("."):
                yield path


def _only(found: dict[str, list[Path]], name: str, folder: Path, where: str) -> Path:
    paths = found.get(name, [])
    if len(paths) == 1:
        return paths[0]
    if not paths:
        raise UserError(f"{where}: {folder} has no picture {name}.jpg (nor .png, .webp); give the folder that has it")
    raise UserError(f"{where}: {folder} has picture {name} twice, {paths[0].name} and {paths[1]}; leave one out")
