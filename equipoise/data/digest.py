"""A digest of a source, by which processes on several machines can tell that they see the same data.

It is bounded, whatever the size of the data: pairs spread evenly over the source are read, and the keys of the records
in its files are taken as far as they are known without reading. Pixels are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from torch import Tensor

from equipoise.data.source import MODALITY, Source, has_features, has_modalities
from equipoise.data.tokenizer import NoTokenizer

PAIRS = 256  # read, at most
KEYS = 1_000_000  # taken of each part, at most


def source_digest(source: Source) -> str:
    """Digest of keys, captions and labels, and of features where there are such instead of pictures."""
    places = spread(len(source), PAIRS)
    digest = blake2b(digest_size=8)
    for index in places:
        pair = source.pair(index)
        _add(digest, (pair.key, *pair.captions, pair.label or ""))
    _add(digest, _known_keys(source))
    if has_features(source):
        _add_numbers(digest, source.image_features(places)[0])
        if source.text_width is not None:
            _add_numbers(digest, source.text_features(places, 1)[0])
    if has_modalities(source):
        for name, values in sorted(source.batch(places, (), NoTokenizer()).side.items()):
            if name.startswith(MODALITY):
                _add_numbers(digest, values)
    return digest.hexdigest()


def spread(count: int, most: int) -> list[int]:
    """Numbers below `count`, at most `most` of them, evenly spread."""
    return [number * count // most for number in range(most)] if count > most else list(range(count))


def _known_keys(source: Any) -> Iterator[str]:
    """Keys of records, of the source itself and of those that it is made of."""
    for part in (*getattr(source, "sources", ()), getattr(source, "source", None)):
        if part is not None:
            yield from _known_keys(part)
    records: Any = getattr(source, "records", None)
    if hasattr(records, "key"):
        yield from map(records.key, spread(len(records), KEYS))


def _add(digest: blake2b, texts: Iterable[str]) -> None:
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\n")


def _add_numbers(digest: blake2b, values: Tensor) -> None:
    digest.update(values.float().contiguous().numpy().tobytes())
