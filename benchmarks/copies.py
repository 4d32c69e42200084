"""How many planted copies of pictures are found, by what was done to them, and how many strangers are called copies.

    python benchmarks/copies.py 'flickr8k_96/train-*.tar'    # shards, of which 100 pictures are copied in each way
    python benchmarks/copies.py scenes                       # the demo's 20,000, of which 5% are near duplicates

Nobody has looked for the copies that real data holds anyway, so a stranger may be a real one.
"""

from __future__ import annotations

import argparse
import io
import random
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from equipoise.config import load_run
from equipoise.data.copies.find import Copy, find_copies
from equipoise.data.copies.signature import Signatures
from equipoise.data.files.webdataset import Shards
from equipoise.data.source import Source

SIZE, READ, EACH, AT_ONCE = 64, 96, 100, 256
Change = Callable[[Image.Image, random.Random], Image.Image]


def compressed(image: Image.Image, _: random.Random) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=30)
    return Image.open(buffer).convert("RGB")


def brighter(image: Image.Image, _: random.Random) -> Image.Image:
    return image.point([min(int(1.25 * level), 255) for level in range(256)] * 3)


def cropped(share: float) -> Change:
    def change(image: Image.Image, rng: random.Random) -> Image.Image:
        side = int(READ * share)
        left, top = rng.randint(0, READ - side), rng.randint(0, READ - side)
        return image.crop((left, top, left + side, top + side))

    return change


def turned(image: Image.Image, rng: random.Random) -> Image.Image:
    return image.rotate(rng.choice([-3, 3]), Image.Resampling.BICUBIC).crop((5, 5, READ - 5, READ - 5))


CHANGES: dict[str, Change] = {
    "JPEG, quality 30": compressed,
    "half as large": lambda image, _: image.resize((READ // 2, READ // 2), Image.Resampling.BILINEAR),
    "a quarter brighter": brighter,
    "mirrored": lambda image, _: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "cropped to 95%": cropped(0.95),
    "cropped to 90%": cropped(0.9),
    "cropped to 80%": cropped(0.8),
    "turned by 3 degrees, cropped": turned,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="shards, or `scenes`")
    parser.add_argument("--size", type=int, default=20_000, help="scenes that are drawn")
    options = parser.parse_args()
    if options.data == "scenes":
        scenes(options.size)
    else:
        shards(options.data)


def shards(data: str) -> None:
    whole = Shards(train=data, validation=data).build("train")
    pictures = torch.cat([whole.images(range(a, min(a + 500, len(whole))), READ) for a in range(0, len(whole), 500)])
    rng, planted, copies = random.Random(0), [], []
    for name, change in CHANGES.items():
        for number in rng.sample(range(len(pictures)), EACH):
            image = change(Image.fromarray(pictures[number].permute(1, 2, 0).numpy()), rng)
            resized = np.array(image.resize((SIZE, SIZE), Image.Resampling.BICUBIC))
            copies.append(torch.from_numpy(resized).permute(2, 0, 1))
            planted.append((name, number))
    shrunk = F.interpolate(pictures, (SIZE, SIZE), mode="bicubic", antialias=True)
    found = timed(torch.cat([shrunk, torch.stack(copies)]))
    named = {(copy.first, copy.second) for copy in found}
    for name in CHANGES:
        hits = sum(
            (number, len(pictures) + place) in named for place, (kind, number) in enumerate(planted) if kind == name
        )
        print(f"{name:30} {hits} of {EACH}")
    strangers = [copy for copy in found if copy.second < len(pictures)]
    exact = sum(copy.exact for copy in strangers)
    print(f"among the {len(pictures):,} pictures themselves: {exact} exact, {len(strangers) - exact} near copies")


def scenes(size: int) -> None:
    settings = [f"data.train_size={size}", "data.noise.shuffled=0.0", "data.noise.near_duplicates=0.05"]
    whole: Source = load_run("demo", settings).run.data.build("train")
    found = timed(
        torch.cat([whole.images(range(a, min(a + 500, len(whole))), SIZE) for a in range(0, len(whole), 500)])
    )
    number = {whole.pair(index).key: index for index in range(len(whole))}
    truths = [whole.pair(index).truth for index in range(len(whole))]
    real = {
        tuple(sorted((index, number[truth["other"]])))
        for index, truth in enumerate(truths)
        if truth.get("noise") == "near_duplicates"
    }
    hits = [(copy.first, copy.second) in real for copy in found]
    for count in (20, 200, len(real), len(hits)):
        print(f"of the first {count} named, {sum(hits[:count])} are real; there are {len(real)}")


def timed(pictures: Tensor) -> list[Copy]:
    start = time.process_time()
    parts = [Signatures.of(pictures[a : a + AT_ONCE]) for a in range(0, len(pictures), AT_ONCE)]
    middle = time.process_time()
    found = find_copies(Signatures.joined(parts))
    end = time.process_time()
    hashing, comparing = middle - start, end - middle
    print(f"{len(pictures):,} pictures: {hashing:.1f} s of processor time to hash, {comparing:.1f} s to compare")
    return found


if __name__ == "__main__":
    main()
