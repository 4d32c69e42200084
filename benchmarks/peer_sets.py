"""The real sets that models are compared with peers on, laid out in a folder: links to shards, class folders, a suite.

    lay_out(DATA, ROOT)    DATA has coco_128, flickr8k_96, cifar10_test2k, emoji_64, fashion_products_64, annotations

Shards are read by tarfile alone, so that peers do not depend on our readers.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from PIL import Image

LINKED = ("coco_128", "flickr8k_96", "cifar10_test2k", "annotations")
LEAST = 30  # pictures of a class: categories with fewer are left out
SUITE = """
[coco-128-dev]
task = "retrieval"
data = "coco_128/dev-000.tar"
relevance.eccv = "annotations/eccv_caption/eccv_image_to_caption.json"
relevance.cxc = "annotations/eccv_caption/cxc_image_to_caption.json"

[flickr8k-dev]
task = "retrieval"
data = "flickr8k_96/dev-000.tar"

[cifar10]
task = "zero-shot"
data = "cifar10_test2k"
classes = "cifar10"

[emoji]
task = "zero-shot"
data = "emoji"

[fashion]
task = "zero-shot"
data = "fashion"
main = "mean_per_class_recall"
"""


class Record(NamedTuple):
    key: str
    parts: dict[str, bytes]  # by ending

    def picture(self) -> Image.Image:
        return Image.open(io.BytesIO(self.parts["jpg"])).convert("RGB")

    def field(self, name: str) -> str:
        return str(json.loads(self.parts["json"])[name])


def records(shard: Path) -> Iterator[Record]:
    """The records of a shard, by tarfile alone."""
    with tarfile.open(shard) as tar:
        current = Record("", {})
        for member in tar:
            key, _, ending = member.name.partition(".")
            if key != current.key:
                if current.key:
                    yield current
                current = Record(key, {})
            content = tar.extractfile(member)
            assert content is not None
            current.parts[ending] = content.read()
        yield current


def write_folders(shard: Path, field: str, out: Path, every: int = 1, least: int = 1) -> None:
    """Every so many of a shard's pictures in folders called by a field of their side data."""
    counts = Counter(record.field(field) for record in records(shard))
    for number, record in enumerate(records(shard)):
        name = record.field(field)
        if number % every == 0 and counts[name] >= least:
            folder = out / name.replace("/", " or ")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{record.key}.jpg").write_bytes(record.parts["jpg"])


def lay_out(data: Path, root: Path) -> Path:
    """Make the sets in `root`, unless they are there; returns the suite's file."""
    suite = root / "suite.toml"
    if not suite.is_file():
        root.mkdir(parents=True, exist_ok=True)
        for name in LINKED:
            (root / name).symlink_to((data / name).resolve())
        write_folders(data / "emoji_64" / "all-000.tar", "category", root / "emoji", least=LEAST)
        write_folders(data / "fashion_products_64" / "train-000.tar", "subCategory", root / "fashion", least=LEAST)
        suite.write_text(SUITE)  # last: a layout that was stopped is no layout
    return suite
