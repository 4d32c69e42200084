"""Near duplicates of scenes in Copydays' layout: read as such, and the truth in their names is the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from copy_scenes import write
from PIL import Image

from equipoise.data.benchmark_sets.instance_set import read_copydays

ORIGINALS, DISTRACTORS = 6, 10


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"), dtype=np.float32).ravel()


def test_the_set_is_read_and_a_near_duplicate_is_like_its_original_alone(tmp_path: Path) -> None:
    assert write(tmp_path, ORIGINALS, DISTRACTORS, seed=3) == ORIGINALS
    found = read_copydays(tmp_path / "copydays")
    assert len(found.truth) == 3 * ORIGINALS
    assert sorted(set(found.blocks)) == ["crops/60", "jpegqual/15", "strong"]
    folder = tmp_path / "copydays"
    kept = [pixels(path) for path in sorted([*folder.glob("original/*"), *folder.glob("distractors/*")])]
    assert len(kept) == ORIGINALS + DISTRACTORS
    originals = [pixels(path) for path in sorted(folder.glob("original/*"))]
    for place, path in enumerate(sorted(folder.glob("strong/*"))):
        distances = [float(np.abs(pixels(path) - one).mean()) for one in kept]
        nearest = kept[int(np.argmin(distances))]
        assert np.array_equal(nearest, originals[place])
        assert min(distances) > 0  # it is no exact copy
