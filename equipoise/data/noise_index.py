"""Noise index files: who was given whose caption, as the field of noisy correspondence writes it down (.npy of int64).

    by caption   [captions]  the image that caption i is shown with      (NCR, BiCro, NPC)
    by image     [images]    the image that the captions of i are shown with, a permutation      (DECL, RCL)

Both keep the captions where they are and move images; here images keep their places and captions move. By caption, an
image keeps as many as it had; by image, it has as many as the one whose captions it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise.io.atomic import replacing
from equipoise.types import UserError


@dataclass(frozen=True)
class NoiseIndex:
    """Who is given whose captions, as a file of either form says."""

    taken: np.ndarray  # by image [N]: the record whose captions each takes; by caption [ΣN]: the caption of each place
    by_image: bool


def read_index(path: Path, counts: np.ndarray) -> NoiseIndex:
    """The file at `path`, for records with `counts` [N] captions."""
    try:
        shown = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UserError(f"{path}: the noise index cannot be read ({error.strerror or error}); check the path") from None
    except (ValueError, EOFError) as error:
        raise UserError(f"{path}: this is no .npy file of whole numbers ({error}); give a noise index") from None
    if shown.ndim != 1 or shown.dtype.kind not in "iu":
        raise UserError(f"{path}: a noise index is one row of whole numbers, not {shown.dtype} of {list(shown.shape)}")
    captions = int(counts.sum())
    by_image = len(shown) == len(counts) != captions
    if len(shown) != captions and not by_image:
        raise UserError(
            f"{path}: it has {len(shown):,} entries, but the data {len(counts):,} images and {captions:,} captions; "
            "it belongs to other data"
        )
    expected = np.ones_like(counts) if by_image else counts
    within = shown.min() >= 0 and shown.max() < len(counts)
    if not within or not np.array_equal(np.bincount(shown.astype(np.int64), minlength=len(counts)), expected):
        given = "the captions of one" if by_image else "as many captions as it has"
        raise UserError(f"{path}: it does not give every image {given}; it belongs to other data")
    return NoiseIndex(np.argsort(shown, kind="stable"), by_image)


def write_index(path: Path, counts: np.ndarray, taken: np.ndarray) -> None:
    """Write who was given whose captions, caption by caption; with `counts` of 1 each, image by image."""
    shown = np.empty(len(taken), dtype=np.int64)
    shown[taken] = np.repeat(np.arange(len(counts)), counts)
    with replacing(path) as new, new.open("wb") as file:
        np.save(file, shown)
