"""Ids of pictures and captions, by which annotations of others name them.

    a shard's .json                 {"image_id": 42, "caption_ids": [641613, ...]}, in the order of the captions
    Karpathy's dataset_coco.json    images: cocoid (or imgid), sentids
    MSCOCO's captions_val2014.json  images: id; annotations: id, image_id
    neither                         the picture's key, and KEY#0, KEY#1, ... for its captions

All are text, numbers without leading zeros, so that 42, "42" and "000042" are one id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from equipoise.data.files.coco import entries, read_json
from equipoise.data.files.karpathy import is_karpathy
from equipoise.data.source import Pair, Source
from equipoise.types import UserError

WANTED = "captions in MSCOCO's form, or a file of Karpathy's splits, such as dataset_coco.json"
Known = Mapping[str, tuple[str, tuple[str, ...]]]  # a picture's id and its captions', by the name of its file


@dataclass(frozen=True)
class CaptionIds:
    """Ids of the pictures of a source, and of the captions of each."""

    images: list[str]
    captions: list[tuple[str, ...]]

    def of_texts(self, image_of_text: Sequence[int]) -> list[str]:
        """Ids of texts, given the number of the picture of each, in the order of the captions."""
        place: dict[int, int] = {}
        found = []
        for image in image_of_text:
            number = place.get(image, 0)
            if number >= len(self.captions[image]):
                raise UserError(
                    f"the picture {self.images[image]} has more captions than the {len(self.captions[image])} ids that "
                    "are known of them; give the annotations of these captions"
                )
            found.append(self.captions[image][number])
            place[image] = number + 1
        return found


def caption_ids(source: Source, file: Path | None = None) -> CaptionIds:
    """The ids that a source's records carry, or those of the annotation file it was read from."""
    known = read_caption_ids(file) if file else {}
    images, captions = [], []
    for index in range(len(source)):
        image, several = _ids(source.pair(index), known, file)
        images.append(image)
        captions.append(several)
    return CaptionIds(images, captions)


def plain_id(value: Any) -> str:
    """An id as it is compared: `COCO_val2014_000000391895.jpg` is 391895, `COCO_val2014:sentid:648388` is 648388."""
    text = str(value).strip()
    if text.startswith("COCO_"):
        text = PurePosixPath(text).stem.replace("_", ":").rpartition(":")[2]
    return str(int(text)) if text.isascii() and text.isdigit() and len(text) < 20 else text


def _ids(pair: Pair, known: Known, file: Path | None) -> tuple[str, tuple[str, ...]]:
    if known:
        name = PurePosixPath(pair.key).name
        if name not in known:
            raise UserError(f"{file} does not list the picture {pair.key}; give the annotations of this data")
        return known[name]
    image = pair.truth.get("image_id")
    if isinstance(several := pair.truth.get("caption_ids"), list) and image is not None:
        return plain_id(image), tuple(map(plain_id, several))
    own = plain_id(pair.key if image is None else image)
    return own, tuple(f"{own}#{number}" for number in range(len(pair.captions)))


def read_caption_ids(file: Path) -> Known:
    """Ids of the pictures and captions of a file in MSCOCO's or Karpathy's form."""
    table = read_json(file, WANTED)
    return _karpathy(table, file) if is_karpathy(table) else _coco(table, file)


def _karpathy(table: dict[str, Any], file: Path) -> Known:
    known = {}
    for number, image in enumerate(entries(table, "images", ("filename", "sentids"), file, WANTED)):
        own = image.get("cocoid", image.get("imgid"))
        if own is None or not isinstance(image["sentids"], list):
            raise UserError(f'{file}: entry {number} of "images" has no cocoid and sentids; give {WANTED}')
        known[str(image["filename"])] = (plain_id(own), tuple(map(plain_id, image["sentids"])))
    return known


def _coco(table: dict[str, Any], file: Path) -> Known:
    captions: dict[str, list[str]] = {}
    for annotation in entries(table, "annotations", ("id", "image_id"), file, WANTED):
        captions.setdefault(plain_id(annotation["image_id"]), []).append(plain_id(annotation["id"]))
    images = entries(table, "images", ("id", "file_name"), file, WANTED)
    owned = ((PurePosixPath(str(image["file_name"])).name, plain_id(image["id"])) for image in images)
    return {name: (own, tuple(captions.get(own, ()))) for name, own in owned}
