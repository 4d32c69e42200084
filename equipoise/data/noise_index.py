"""Noise index files: who was given whose caption, as the field of noisy correspondence writes it down (.npy of int64).

    by caption   [captions]  the image that caption i is shown with      (NCR, BiCro, NPC)
    by image     [images]    the image that the captions of i are shown with, a permutation      (DECL, RCL)

Both keep the captions where they are and move images; here images keep their places and captions move. An image keeps
as many captions as it had.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equipoise.io.atomic import replacing
from equipoise.types import UserError


def read_index(path: Path, counts: np.ndarray) -> np.ndarray:
    """The caption that takes each place [ΣN], of records with `counts` [N] captions, from a file of either form."""
    try:
        shown = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UserError(f"{path}: the noise index cannot be read ({error.strerror or error}); check the path") from None
    except (ValueError, EOFError) as error:
        raise UserError(f"{path}: this is no .npy file of whole numbers ({error}); give a noise index") from None
    if shown.ndim != 1 or shown.dtype.kind not in "iu":
        raise UserError(f"{path}: a noise index is one row of whole numbers, not {shown.dtype} of {list(shown.shape)}")
    if len(shown) == len(counts) != counts.sum():
        shown = np.repeat(shown, counts)
    captions = int(counts.sum())
    if len(shown) != captions:
        raise UserError(
            f"{path}: it has {len(shown):,} entries, but the data {len(counts):,} images and {captions:,} captions; "
            "it belongs to other data"
        )
    if not np.array_equal(np.bincount(shown.clip(0), minlength=len(counts)), counts) or shown.min() < 0:
        raise UserError(f"{path}: it does not give every image as many captions as it has; it belongs to other data")
    return np.argsort(shown, kind="stable")


def write_index(path: Path, counts: np.ndarray, taken: np.ndarray) -> None:
    """Write who was given whose captions, caption by caption."""
    shown = np.empty(len(taken), dtype=np.int64)
    shown[taken] = np.repeat(np.arange(len(counts)), counts)
    with replacing(path) as new, new.open("wb") as file:
        np.save(file, shown)
