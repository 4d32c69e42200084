"""Features with the pictures they were made of: models read the features, people and hashes see the pictures.

Pictures are found by key. Where both sides have captions, those of a record must be among those of its picture, so that
a key that names something else is no match; where a key is there several times, captions tell its pictures apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equipoise.data.features.source import FeatureFiles
from equipoise.data.remap import subset
from equipoise.data.source import Pair, Source, can_crop, has_features, has_modalities, inner_source
from equipoise.data.truth import is_clean
from equipoise.data.unreadable_pictures import BlankPictures
from equipoise.types import UserError


class PicturedFeatures:
    """`source`, whatever it offers, with `pictures` under the same numbers."""

    def __init__(self, source: Source, pictures: Source):
        self.source: Any = source
        self.pictures: Any = pictures

    def __len__(self) -> int:
        return len(self.source)

    def __getattr__(self, name: str) -> Any:
        if name in ("source", "pictures"):  # not there yet, while it is unpickled
            raise AttributeError(name)
        return getattr(self.source, name)

    def pair(self, index: int) -> Pair:
        return self.source.pair(index)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return self.pictures.images(indices, size, device)

    @property
    def unreadable(self) -> frozenset[int]:
        return getattr(self.pictures, "unreadable", frozenset())


def pictures_of(source: Source, pictures: Source, name: str) -> Source:
    """As `matching_pictures`; grey ones stand for those that cannot be read."""
    found = matching_pictures(source, pictures, name)
    return BlankPictures(found, "shown") if can_crop(found) else found


def matching_pictures(source: Source, pictures: Source, name: str) -> Source:
    """The pictures of the records of `source`, under its numbers.

    `name` says in errors where they lie. Raises UserError for a record without a picture of its own.
    """
    if not has_features(source):
        raise UserError("--pictures belongs to data of features, and this data has pictures itself; leave it out")
    if has_features(pictures) or has_modalities(pictures):
        raise UserError(f"--pictures {name} holds no pictures; give the data that the features were made of")
    features = inner_source(source, FeatureFiles)
    if features is not None and not features.has_keys:
        raise UserError(
            f"the features have no 'keys', by which --pictures {name} could be matched; add them, or make the features "
            "with `equipoise embed`, which writes them"
        )
    return subset(pictures, _places(source, pictures, name))


def _places(source: Source, pictures: Source, name: str) -> list[int]:
    """The number of each record's picture."""
    pairs = [pictures.pair(number) for number in range(len(pictures))]
    by_key: dict[str, list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        by_key[pair.key].append(number)
    places = []
    for index in range(len(source)):
        record = source.pair(index)
        fitting = [number for number in by_key.get(record.key, ()) if _fits(record, pairs[number])]
        _require_one(record, fitting, pairs, by_key.get(record.key, ()), name)
        places.append(fitting[0])
        if len(fitting) > 1:  # of records that are the same in all, in their order
            by_key[record.key].remove(fitting[0])
    return places


def _fits(record: Pair, picture: Pair) -> bool:
    """Whether captions say nothing against a match; those of others (`[shuffle]`) say nothing at all."""
    known = record.captions and picture.captions and is_clean(record.truth) is not False
    return not known or set(record.captions) <= set(picture.captions)


def _require_one(record: Pair, fitting: Sequence[int], pairs: Sequence[Pair], named: Sequence[int], name: str) -> None:
    if not named:
        raise UserError(
            f"--pictures {name} has no record {record.key}, of which there are features; give the data that the "
            "features were made of"
        )
    if not fitting:
        raise UserError(
            f"--pictures {name} has other captions for record {record.key} than the features; give the data that the "
            "features were made of"
        )
    told_apart = record.captions and len({pairs[number].captions for number in fitting}) == 1
    if len(fitting) > 1 and not told_apart:
        raise UserError(
            f"--pictures {name} has {len(fitting)} records {record.key}, and nothing tells which is that of the "
            "features; give every record a key of its own"
        )
