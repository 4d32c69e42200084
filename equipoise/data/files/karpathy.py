"""Captions with splits as Karpathy & Fei-Fei gave them: dataset_coco.json, dataset_flickr30k.json and their like.

    {"images": [{"filename", "filepath" (a folder, MSCOCO's alone), "split", "sentences": [{"raw"}, ...]}, ...]}

Read as a table with the columns `file_name`, `caption` (a list) and `split`, a row per picture. The splits are those
that papers report: `train`, with MSCOCO's `restval`, `val` and `test` (`table_splits.py`).

Karpathy & Fei-Fei 2015, "Deep Visual-Semantic Alignments for Generating Image Descriptions", §4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from equipoise.data.files.coco import entries
from equipoise.types import UserError

WANTED = "a file of Karpathy's splits as it was published, such as dataset_flickr30k.json"
FILE_NAME, CAPTION, SPLIT = COLUMNS = ("file_name", "caption", "split")


def is_karpathy(content: Mapping[str, Any]) -> bool:
    """Whether a JSON object is of this form, by its first image."""
    images = content.get("images")
    first = images[0] if isinstance(images, list) and images else None
    return isinstance(first, dict) and "sentences" in first


def karpathy_rows(content: dict[str, Any], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    images = entries(content, "images", ("filename", "split", "sentences"), path, WANTED)
    for number, image in enumerate(images):
        name = str(PurePosixPath(str(image.get("filepath") or "")) / str(image["filename"]))
        yield number, {FILE_NAME: name, CAPTION: _captions(image["sentences"], number, path), SPLIT: image["split"]}


def _captions(sentences: Any, number: int, path: Path) -> list[str]:
    if not isinstance(sentences, list) or not all(isinstance(one, dict) and "raw" in one for one in sentences):
        raise UserError(f'{path}: entry {number} of "images" has "sentences" without "raw"; give {WANTED}')
    return [str(one["raw"]) for one in sentences]
