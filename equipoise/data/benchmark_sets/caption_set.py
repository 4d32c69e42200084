"""A set of pictures with captions, and what people judged of them: what retrieval needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from equipoise.data.files.infer_format import infer
from equipoise.data.files.table import Table
from equipoise.data.source import Source
from equipoise.types import UserError

KARPATHY = ("dataset_coco.json", "dataset_flickr30k.json", "dataset_flickr8k.json")
COCO = (("annotations/captions_val2014.json", "val2014"), ("annotations/captions_val2017.json", "val2017"))


@dataclass(frozen=True)
class CaptionSet:
    source: Source
    annotations: Path | None = None  # the file that ids of captions are in
    relevance: Mapping[str, Path] = field(default_factory=dict)  # files of relevance by the names of their metrics
    grades: Mapping[str, Path] = field(default_factory=dict)  # CxC's files by their kinds: sits, sis, sts


def read_caption_set(place: Path, **judged: Mapping[str, Path]) -> CaptionSet:
    """Shards, a table, or a folder as MSCOCO and Karpathy leave it; the whole of it, or its test split."""
    if not place.exists():
        raise UserError(f"{place}: there is no such data; check the path")
    annotations, source = None, None
    if place.is_dir():
        annotations, source = _published(place)
    if source is None:
        inside = next((place / split for split in ("test", "val") if any((place / split).glob("*.tar"))), place)
        source = infer(str(inside)).settings.build("test")
        annotations = place if place.suffix == ".json" else None
    if not any(source.pair(index).captions for index in range(len(source))):
        raise UserError(f"{place}: these pictures have no captions, so there is nothing to retrieve")
    return CaptionSet(source, annotations, judged.get("relevance", {}), judged.get("grades", {}))


def _published(folder: Path) -> tuple[Path | None, Source | None]:
    for name in KARPATHY:
        if (file := folder / name).is_file():
            inner = next((one for one in ("flickr30k-images", "images") if (folder / one).is_dir()), "")
            columns = Table(path="file_name", captions="caption", split="split")
            return file, replace(columns, test=str(file), images=str(folder / inner)).build("test")
    for name, images in COCO:
        if (file := folder / name).is_file():
            table = Table(test=str(file), path="file_name", captions="caption", images=str(folder / images))
            return file, table.build("test")
    return None, None
