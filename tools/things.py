"""What a detector found, one vector a picture beside frozen features, for `data.guide = "things"` (docs/features.md).

    equipoise regions 'flickr8k/train-{000..002}.tar' --out things --detector ssd/detector.pt --labels ssd/labels.txt
    python tools/things.py things train.npz --out guided/train.npz

Rows of features are found by `keys`; without them they are the records of the regions, in their order. A picture's
vector is the mean of its regions' scores (of COCO-SSD 90), each of length 1; zeros where nothing was found.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from equipoise.data.files.regions import BOX, RegionFiles
from equipoise.types import UserError


def things(folder: Path, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """[N, kinds] of the records whose features these are."""
    regions = RegionFiles(folder)
    known = regions.keys()
    keys = [str(key) for key in arrays.get("keys", known)]
    if len(keys) != len(arrays["image"]):
        raise SystemExit(
            f"{folder} has regions of {len(known):,} records, and there are features of {len(arrays['image']):,}; give "
            "these an array `keys`"
        )
    if missing := sorted(set(keys) - set(known)):
        raise SystemExit(f"{folder} has no regions of {missing[0]} and {len(missing) - 1:,} others")
    found, real = regions.regions(keys)
    unit = F.normalize(found[..., :-BOX], dim=-1) * real[..., None]
    return (unit.sum(1) / real.sum(1, keepdim=True).clamp(min=1)).to(torch.float16).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description="What a detector found, beside frozen features.")
    parser.add_argument("regions", type=Path, help="folder of `equipoise regions`")
    parser.add_argument("features", type=Path, help=".npz file")
    parser.add_argument("--out", type=Path, required=True, help="the same with an array `things`")
    options = parser.parse_args()
    try:
        with np.load(options.features) as given:
            arrays = dict(given)
        vectors = things(options.regions, arrays)
    except (OSError, ValueError, UserError) as error:  # no file, no arrays, no regions
        raise SystemExit(str(error)) from None
    options.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(options.out, **{**arrays, "things": vectors})
    print(f"{int(vectors.any(1).sum()):,} of {len(vectors):,} pictures have things: {options.out}")


if __name__ == "__main__":
    main()
