"""Near duplicates of scenes in the layout of Copydays, for `equipoise benchmark` from image to image.

    python benchmarks/copy_scenes.py sets --originals 500 --distractors 2000
    equipoise benchmark runs/demo RUN_UNTRAINED --suite copydays --data sets --out bench

    original/      scenes that have a near duplicate
    strong/        the near duplicate: the same things a little moved, turned and resized
    crops/60/      the middle 60% of the original
    jpegqual/15/   the original as JPEG of quality 15
    distractors/   other scenes

All are of a seed that no recipe trains on. What is found is known: a copy has the number of its original.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from equipoise.config import load_run
from equipoise.data.source import Source

SIZE, CROP, QUALITY, SEED, AT_ONCE = 64, 0.6, 15, 9_001, 256


def is_copy(source: Source, index: int) -> bool:
    return (source.pair(index).truth or {}).get("noise") == "near_duplicates"


def near_duplicates(source: Source, wanted: int) -> Iterator[tuple[int, int]]:
    """An original and its near duplicate, each original once."""
    number = {source.pair(index).key: index for index in range(len(source))}
    used: set[int] = set()
    for index in range(len(source)):
        original = number[(source.pair(index).truth or {})["other"]] if is_copy(source, index) else index
        if original != index and not used & {index, original}:
            used |= {index, original}
            yield original, index
            if len(used) == 2 * wanted:
                return


def pictures(source: Source, indices: Sequence[int]) -> Iterator[Image.Image]:
    for start in range(0, len(indices), AT_ONCE):
        drawn = source.images(list(indices[start : start + AT_ONCE]), SIZE)
        pixels = (drawn * 255 if drawn.is_floating_point() else drawn).to(torch.uint8).permute(0, 2, 3, 1)
        yield from map(Image.fromarray, np.ascontiguousarray(pixels))


def write(folder: Path, originals: int, distractors: int, seed: int) -> int:
    """Write the set; how many originals there are."""
    size = 12 * (originals + distractors)
    noise = ("data.noise.near_duplicates=0.2", "data.noise.shuffled=0", "data.noise.wrong_attribute=0")
    settings = [f"data.train_size={size}", f"data.seed={seed}", *noise]
    source = load_run("demo", settings).run.data.build("train")
    twos = list(near_duplicates(source, originals))
    taken = {index for two in twos for index in two}
    others = [index for index in range(len(source)) if index not in taken and not is_copy(source, index)]
    for place, (image, copy) in enumerate(
        zip(*(pictures(source, row) for row in zip(*twos, strict=True)), strict=True)
    ):
        edge = round(SIZE * (1 - CROP) / 2)
        for name, made, options in (
            (f"original/{place:06d}00.png", image, {}),
            (f"strong/{place:06d}01.png", copy, {}),
            (f"crops/{CROP:.0%}".rstrip("%") + f"/{place:06d}02.png", image.crop((edge,) * 2 + (SIZE - edge,) * 2), {}),
            (f"jpegqual/{QUALITY}/{place:06d}03.jpg", image, {"quality": QUALITY}),
        ):
            path = folder / "copydays" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            made.save(path, **options)
    (folder / "copydays" / "distractors").mkdir(parents=True, exist_ok=True)
    for place, image in enumerate(pictures(source, others[:distractors])):
        image.save(folder / "copydays" / "distractors" / f"{place:06d}.png")
    return len(twos)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where copydays/ is written")
    parser.add_argument("--originals", type=int, default=500)
    parser.add_argument("--distractors", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    count = write(options.folder, options.originals, options.distractors, options.seed)
    print(
        f"{count} originals, three copies of each, {options.distractors} distractors in {options.folder / 'copydays'}"
    )


if __name__ == "__main__":
    main()
