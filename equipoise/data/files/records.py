"""What every kind of file offers: records by number, each with a pair and the bytes of its image."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from equipoise.data.bad_records import Fault
from equipoise.data.record_numbers import Selection, record_numbers
from equipoise.data.rng import BITS, keyed_int
from equipoise.data.source import Pair

IMAGES = ("jpg", "jpeg", "png", "webp")
LARGEST = 1 << 28  # bytes of an image, or of regions; what is larger is not read


class Records(Protocol):
    """Records in a fixed order. `faults` are those that were left out when the files were indexed."""

    @property
    def faults(self) -> Sequence[Fault]: ...

    def __len__(self) -> int: ...

    def key(self, index: int) -> str: ...

    def place(self, index: int) -> str:
        """The file and the record in it, for a person."""
        ...

    def pair(self, index: int) -> Pair: ...

    def image(self, index: int) -> bytes:
        """The image as its file holds it. Raises BadRecord where only this one is missing."""
        ...

    def read(self, index: int) -> tuple[Pair, bytes]:
        """`pair` and `image` from one opening of the record's file. Raises BadRecord."""
        ...

    def side_files(self, index: int) -> Mapping[str, bytes]:
        """What belongs to the record besides the image, by file ending."""
        ...


class Subset:
    """The records with the numbers `chosen`."""

    def __init__(self, records: Records, chosen: np.ndarray | Selection, faults: Sequence[Fault] | None = None):
        self.records, self._faults = records, faults
        self.chosen = record_numbers(chosen) if isinstance(chosen, np.ndarray) else chosen

    @property
    def faults(self) -> Sequence[Fault]:
        return self.records.faults if self._faults is None else self._faults

    def __len__(self) -> int:
        return len(self.chosen)

    def key(self, index: int) -> str:
        return self.records.key(int(self.chosen[index]))

    def place(self, index: int) -> str:
        return self.records.place(int(self.chosen[index]))

    def pair(self, index: int) -> Pair:
        return self.records.pair(int(self.chosen[index]))

    def image(self, index: int) -> bytes:
        return self.records.image(int(self.chosen[index]))

    def read(self, index: int) -> tuple[Pair, bytes]:
        return self.records.read(int(self.chosen[index]))

    def side_files(self, index: int) -> Mapping[str, bytes]:
        return self.records.side_files(int(self.chosen[index]))


def held_out(records: Records, share: float) -> np.ndarray:
    """Bool [records]: about `share` of them, chosen by their keys, so that no other record changes the choice.

    Where that would leave nothing on a side, as chance does with a few records, the one nearest to it goes there.
    """
    limit = int(share * 2**BITS)
    keys = (records.key(index).encode("utf-8", "surrogatepass") for index in range(len(records)))
    drawn = np.fromiter(map(keyed_int, keys), np.uint64, len(records))
    away = drawn < limit
    if share > 0 and len(records) > 1:
        if not away.any():
            away[drawn.argmin()] = True
        elif away.all():
            away[drawn.argmax()] = False
    return away


def side_files_of(pair: Pair) -> dict[str, bytes]:
    """A pair as the side files that a shard would hold."""
    side = {name: value for name, value in vars(pair).items() if name not in ("key", "captions") and value}
    files = {"txt": "\n".join(" ".join(caption.split()) for caption in pair.captions).encode()}
    return files | ({"json": json.dumps(side, ensure_ascii=False).encode()} if side else {})


def pair_with(key: str, captions: Sequence[str], side: Mapping[str, Any]) -> Pair:
    """A pair with what its side data says in the form we know; the rest of it is kept as truth."""
    known: dict[str, Any] = {}
    label, tags, boxes, truth = (side.get(name) for name in ("label", "tags", "boxes", "truth"))
    if isinstance(label, str):
        known["label"] = label
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        known["tags"] = tuple(tags)
        if isinstance(boxes, list) and len(boxes) == len(tags) and all(map(_is_box, boxes)):
            known["boxes"] = tuple(tuple(map(float, box)) for box in boxes)
    if isinstance(truth, Mapping):
        known["truth"] = truth
    rest = {name: value for name, value in side.items() if name not in known and value is not None}
    if rest.get("key") == key:
        del rest["key"]
    return Pair(key, tuple(captions), **{**known, "truth": {**known.get("truth", {}), **rest}})


def _is_box(box: Any) -> bool:
    return isinstance(box, list) and len(box) == 4 and all(type(edge) in (int, float) for edge in box)
