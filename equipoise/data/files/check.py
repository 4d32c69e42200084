"""Everything there is to know of a data set before training on it, from reading all of it once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.data.bad_records import BadRecord, Fault, printable
from equipoise.data.drawn_captions import no_words
from equipoise.data.encoded_image import encoded
from equipoise.data.files.records import Records

QUANTILES = {"least": 0.0, "5%": 0.05, "median": 0.5, "95%": 0.95, "most": 1.0}
EXAMPLES = 10  # of things that come more than once

Progress = Callable[[int], None]  # records done
CountTokens = Callable[[str], int]
LeavesNothing = Callable[[Sequence[str]], list[bool]]  # captions -> of which a tokenizer leaves nothing


@dataclass
class Findings:
    """What was counted; `summary` says it in numbers and a few examples."""

    records: int = 0
    widths: list[int] = field(default_factory=list)
    heights: list[int] = field(default_factory=list)
    image_bytes: list[int] = field(default_factory=list)
    captions_each: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    without_words: int = 0  # captions of which the tokenizer leaves nothing, beside others of their records
    labels: Counter[str] = field(default_factory=Counter)
    captions: Counter[bytes] = field(default_factory=Counter)
    texts: dict[bytes, str] = field(default_factory=dict)  # of captions that come more than once
    images: dict[bytes, list[str]] = field(default_factory=dict)  # places of the same bytes
    faults: list[Fault] = field(default_factory=list)

    @classmethod
    def begun(cls, records: Records) -> Findings:
        """Of no record yet, but with those that were left out when the files were indexed."""
        return cls(records=len(records) + len(records.faults), faults=list(records.faults))

    def add(self, look: Look) -> None:
        self.widths.append(look.width)
        self.heights.append(look.height)
        self.image_bytes.append(look.image_bytes)
        self.images.setdefault(bytes.fromhex(look.image), []).append(look.place)
        self.captions_each.append(len(look.captions))
        if look.label is not None:
            self.labels[look.label] += 1
        self.without_words += sum(look.lost)
        self.tokens += look.tokens
        for caption in look.captions:
            key = _digest(caption.encode())
            self.captions[key] += 1
            if self.captions[key] == 2:
                self.texts[key] = caption
            self.words.append(len(caption.split()))

    def summary(self) -> dict[str, Any]:
        copies = {places[0]: places[1:] for places in self.images.values() if len(places) > 1}
        repeated = {key: count for key, count in self.captions.items() if count > 1}
        often = sorted(repeated, key=lambda key: (-repeated[key], self.texts[key]))[:EXAMPLES]
        return {
            "records": self.records,
            "usable": len(self.widths),
            "unusable": len(self.faults),
            "width": spread(self.widths),
            "height": spread(self.heights),
            "bytes an image": spread(self.image_bytes),
            "captions an image": spread(self.captions_each),
            "words a caption": spread(self.words),
            **({"tokens a caption": spread(self.tokens)} if self.tokens else {}),
            **({"labels": dict(self.labels.most_common())} if self.labels else {}),
            "captions": sum(self.captions.values()),
            "captions without words": self.without_words,
            "captions that are copies": sum(repeated.values()) - len(repeated),
            "most frequent captions": {self.texts[key]: repeated[key] for key in often},
            "images that are copies": sum(map(len, copies.values())),
            "copied images": dict(list(copies.items())[:EXAMPLES]),
            "faults": [vars(fault) for fault in self.faults],
        }


@dataclass(frozen=True)
class Look:
    """What was seen of one record that can be used."""

    place: str
    width: int
    height: int
    image_bytes: int
    image: str  # digest of its bytes
    label: str | None
    captions: Sequence[str]
    lost: Sequence[bool]  # captions of which the tokenizer leaves nothing
    tokens: Sequence[int]  # of the others, where they are counted


def check(
    records: Records,
    progress: Progress | None = None,
    count_tokens: CountTokens | None = None,
    leaves_nothing: LeavesNothing | None = None,
) -> Findings:
    """Reads every record and decodes every image whole. A record is unusable too where nothing is left of all its
    captions."""
    found = Findings.begun(records)
    for index in range(len(records)):
        try:
            found.add(look_at(records, index, count_tokens, leaves_nothing))
        except BadRecord as error:
            found.faults.append(error.fault)
        if progress:
            progress(index + 1)
    return found


def look_at(
    records: Records, index: int, count_tokens: CountTokens | None, leaves_nothing: LeavesNothing | None
) -> Look:
    """Reads a record and decodes its image whole. Raises BadRecord."""
    pair, data = records.read(index)
    place = printable(records.place(index))
    picture = encoded(data, place)
    picture.pixels()
    captions = pair.captions
    lost = leaves_nothing(captions) if leaves_nothing else [False] * len(captions)
    if all(lost) and lost:
        raise BadRecord(place, no_words(captions))
    tokens = [count_tokens(text) for text, nothing in zip(captions, lost, strict=True) if count_tokens and not nothing]
    seen = (picture.width, picture.height, len(data), _digest(data).hex())
    return Look(place, *seen, pair.label, captions, lost, tokens)


def spread(values: Sequence[int]) -> dict[str, float]:
    """The mean and some quantiles of the values."""
    if not values:
        return {}
    numbers = np.quantile(values, list(QUANTILES.values()), method="nearest").tolist()
    return {"mean": round(float(np.mean(values)), 2), **dict(zip(QUANTILES, numbers, strict=True))}


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
