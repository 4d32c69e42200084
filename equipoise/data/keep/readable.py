"""A source without the captions of which a tokenizer leaves nothing, for work in which no record replaces another."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from equipoise.data.bad_records import BadRecord, BadRecordCount, Fault
from equipoise.data.drawn_captions import no_words
from equipoise.data.keep.source import KeptSource
from equipoise.data.source import Source, can_crop, has_features
from equipoise.data.tokenizer import CaptionTokenizer


def readable(source: Source, tokens: CaptionTokenizer) -> Source:
    """The source itself where every caption has words; else those captions are left out, and with its last one a
    record. Raises UserError where these are too many."""
    if not tokens.size or not _has_words_of_others(source):
        return source
    counts, empty, faults = list[int](), list[bool](), list[Fault]()
    for index in range(len(source)):
        pair = source.pair(index)
        captions, lost = pair.captions, tokens.leaves_nothing(pair.captions, [pair.key] * len(pair.captions))
        if lost and all(lost):
            faults.append(Fault(_place(source, index), no_words(captions)))
        counts.append(len(lost))
        empty += lost
    if not any(empty):
        return source
    _judge(source, faults, sum(empty))
    return KeptSource(source, np.array(counts), ~np.array(empty))


def _has_words_of_others(source: Source) -> bool:
    """Whether captions come from files: those of scenes are made here, and many."""
    return can_crop(source) or (has_features(source) and source.text_width is None)


def _place(source: Source, index: int) -> str:
    try:
        return source.open(index).image.place if can_crop(source) else f"record {source.pair(index).key}"
    except BadRecord as error:  # its picture is bad as well
        return error.fault.place


def _judge(source: Source, faults: Sequence[Fault], captions: int) -> None:
    BadRecordCount(source.max_bad if can_crop(source) else 1.0, len(source)).add(len(source), faults)
    first = f", the first for this: {faults[0]}" if faults else ""
    warnings.warn(
        f"the tokenizer leaves nothing of {captions:,} captions, so {len(faults):,} of {len(source):,} records are "
        f"left out{first}",
        stacklevel=3,
    )
