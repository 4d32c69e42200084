"""What a pair's `truth` says, read by name and shape.

    is_clean       bool: whether all captions of the pair are right
    captions_true  bool, one per caption
    details        the level of detail of each caption, of scenes
    text_names     what features without words are told apart by, one per text
    noise          the kind of noise a pair has: shuffled, near_duplicates, ...
    other          the key of the record that noise took something from

Other fields of a file's `.json` lie there too (`files/records.py`), by whatever names their author chose. So a field
that has such a name and not its shape is the author's own: it says nothing here, and is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

CLEAN, TRUE, DETAILS, NAMES, NOISE, OTHER = "is_clean", "captions_true", "details", "text_names", "noise", "other"
PER_CAPTION = (TRUE, DETAILS, NAMES)

Truth = Mapping[str, Any]


def per_caption(truth: Truth, name: str, count: int) -> list[Any] | None:
    """What is known of each of `count` captions; None where it is not a list of one entry per caption."""
    found = truth.get(name)
    return found if isinstance(found, list) and len(found) == count else None


def is_clean(truth: Truth) -> bool | None:
    """Whether all captions are right; None where that is not known."""
    found = truth.get(CLEAN)
    return found if isinstance(found, bool) else None


def noise_kind(truth: Truth) -> str | None:
    found = truth.get(NOISE)
    return found if isinstance(found, str) else None


def wrong_captions(truth: Truth, count: int) -> np.ndarray:
    """Bool [count]: by the caption where that is known, else all or none; none where nothing is known."""
    own = per_caption(truth, TRUE, count)
    if own is None or not all(isinstance(one, bool) for one in own):
        return np.full(count, is_clean(truth) is False)
    return ~np.array(own, dtype=bool)
