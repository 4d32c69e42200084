"""What a batch knows of its samples beyond image and text: `Batch.side`, by name, one row per sample.

    caption, key, label   fingerprints: equal numbers mean equal words; a sample without a label has a number of its own
    regions, region_mask  features of parts of the image [N, R, w] and which of the R are real [N, R]
    things                a fingerprint of what the image truly shows, of scenes; to judge guides by
    tags, tags_mask       the names of these parts, joined by commas, as token ids [N, context]
    has_regions, has_tags bool [N], False where nothing is known of a sample: a guide leaves its row alone

Regions and tags are there where the source offers them; every row is as long on every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from equipoise.data.rng import keyed_int
from equipoise.data.scenes.annotation import has_scene
from equipoise.data.source import HAS, REGION_MASK, REGIONS, TAGS, TAGS_MASK, Pair, Source, has_regions
from equipoise.data.tokenizer import CaptionTokenizer

THINGS = "things"
NOTHING = "nothing"  # read where there are no tags, for a text tower has to read something


def side_data(
    source: Source, pairs: Sequence[Pair], captions: Sequence[str], indices: Sequence[int]
) -> dict[str, Tensor]:
    """The side data that needs no tokenizer."""
    side = {"caption": fingerprints(captions), **names([pair.key for pair in pairs], [pair.label for pair in pairs])}
    if has_regions(source):
        side[REGIONS], side[REGION_MASK] = source.regions(indices)
        side[HAS + REGIONS] = side[REGION_MASK].any(1)
        if all(map(has_scene, pairs)):  # tags of scenes are true; the detector's may err
            side[THINGS] = fingerprints(", ".join(sorted(pair.tags)) for pair in pairs)
    return side


def names(keys: Sequence[str], labels: Sequence[str | None]) -> dict[str, Tensor]:
    """Fingerprints of keys and labels."""
    known = [
        _without_label(key) if label is None else _fingerprint(label) for key, label in zip(keys, labels, strict=True)
    ]
    return {"key": fingerprints(keys), "label": torch.tensor(known)}


def tag_data(
    source: Source, pairs: Sequence[Pair], indices: Sequence[int], tokens: CaptionTokenizer
) -> dict[str, Tensor]:
    """The names of the regions as token ids."""
    if not has_regions(source):
        return {}
    sentences = [", ".join(source.tags(index)) for index in indices]
    names = [f"{pair.key} (its tags)" for pair in pairs]
    empty = tokens.leaves_nothing(sentences, names)
    sentences = ["" if lost else sentence for sentence, lost in zip(sentences, empty, strict=True)]
    ids, mask = tokens([sentence or NOTHING for sentence in sentences], names, pad_to_context=True)
    return {TAGS: ids, TAGS_MASK: mask, HAS + TAGS: torch.tensor([bool(sentence) for sentence in sentences])}


def fingerprints(texts: Iterable[str]) -> Tensor:
    """One whole number per text [N], the same in every process and on every day."""
    return torch.tensor([_fingerprint(text) for text in texts])


@lru_cache(1 << 17)  # the same texts come by in every epoch
def _fingerprint(text: str) -> int:
    return keyed_int(text, signed=True)


@lru_cache(1 << 17)
def _without_label(key: str) -> int:
    return _fingerprint(f"{key} has no label")
