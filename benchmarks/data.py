"""Images per second from JPEGs to a training batch, on one core: `python benchmarks/data.py`.

500 x 375 JPEGs of quality 90 become 224-pixel crops. Seconds are the core's own and rounds take turns, so that other
work on the machine matters little. `--picture FILE` takes a photograph instead of drawn scenes.

Two tables: bytes in memory to normalised crops, beside open_clip's transform, both with crops of 90% to 100% of the
area (open_clip's own default); and records of a shard with one or two crops and their captions, each record opened and
decoded once for all of it, beside opening it anew for every crop and for the captions.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from open_clip_peer import make_torchvision_importable
from PIL import Image

from equipoise.data.bad_records import Fault
from equipoise.data.crops import Boxes, cut_crops
from equipoise.data.files import Shards
from equipoise.data.files.image_source import Pictures
from equipoise.data.preprocess import Preprocess, crop_draws
from equipoise.data.scenes import Scenes
from equipoise.data.source import CroppingSource, Pair

HEIGHT, WIDTH, SIZE, COUNT, ROUNDS = 375, 500, 224, 128, 5


class InMemory:
    """Pictures that need not be read, only decoded."""

    faults: Sequence[Fault] = ()

    def __init__(self, files: list[bytes]):
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def key(self, index: int) -> str:
        return str(index)

    place = key

    def pair(self, index: int) -> Pair:
        return Pair(self.key(index), ("a picture",))

    def image(self, index: int) -> bytes:
        return self.files[index]

    def read(self, index: int) -> tuple[Pair, bytes]:
        return self.pair(index), self.image(index)

    def side_files(self, index: int) -> dict[str, bytes]:
        return {}


def pictures(file: Path | None) -> list[bytes]:
    """COUNT different JPEGs: scenes, or parts of a photograph."""
    if file:
        with Image.open(file) as opened:
            photo = opened.convert("RGB").resize((2 * WIDTH, 2 * HEIGHT), Image.Resampling.BICUBIC)
        steps = [(i * WIDTH // COUNT, i * HEIGHT // COUNT) for i in range(COUNT)]
        images = [photo.crop((x, y, x + WIDTH, y + HEIGHT)) for x, y in steps]
    else:
        drawn = Scenes.Config(train_size=COUNT, cache=False).build("train").images(range(COUNT), WIDTH)
        images = [Image.fromarray(one.permute(1, 2, 0).numpy()).crop((0, 0, WIDTH, HEIGHT)) for one in drawn]
    files = []
    for image in images:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=90)
        files.append(buffer.getvalue())
    return files


def ours(files: list[bytes]) -> Callable[[], torch.Tensor]:
    source, preprocess = Pictures(InMemory(files)), Preprocess(SIZE, crop_scale=(0.9, 1.0))
    generator = torch.Generator().manual_seed(0)

    def batch() -> torch.Tensor:
        crops = cut_crops(source, range(len(files)), SIZE, [view(preprocess, generator)])
        return preprocess.normalised(crops.pixels[0])

    return batch


def view(preprocess: Preprocess, generator: torch.Generator) -> Boxes:
    """Training crops of a batch of COUNT."""
    draws = crop_draws(COUNT, generator)
    return lambda places, sizes: preprocess.boxes(sizes, draws[list(places)])


def shard(files: list[bytes], folder: Path) -> CroppingSource:
    """A source of the pictures in one shard, each with a caption."""
    with tarfile.open(folder / "a.tar", "w") as tar:
        for number, data in enumerate(files):
            for name, content in ((f"{number:05d}.jpg", data), (f"{number:05d}.txt", b"a picture")):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return Shards(train="a.tar", validation="a.tar", root=str(folder)).build("train")


def crops_of(source: CroppingSource, views: int, together: bool) -> Callable[[], torch.Tensor]:
    """A batch of `views` crops per record with captions; a record is opened once, or once for each of these."""
    preprocess, generator = Preprocess(SIZE, crop_scale=(0.5, 1.0)), torch.Generator().manual_seed(0)

    def batch() -> torch.Tensor:
        boxes = [view(preprocess, generator) for _ in range(views)]
        if together:
            return cut_crops(source, range(COUNT), SIZE, boxes).pixels[0]
        crops = [cut_crops(source, range(COUNT), SIZE, [one]) for one in boxes]
        assert all(source.pair(index).captions for index in range(COUNT))
        return crops[0].pixels[0]

    return batch


def open_clips(files: list[bytes]) -> Callable[[], torch.Tensor]:
    make_torchvision_importable()
    from open_clip import image_transform

    transform = image_transform(SIZE, is_train=True)
    return lambda: torch.stack([transform(Image.open(io.BytesIO(data))) for data in files])


def rates(work: Sequence[Callable[[], torch.Tensor]], rounds: int) -> list[float]:
    """Images per second of each, the best of several rounds that take turns."""
    best = [0.0] * len(work)
    for _ in range(rounds):
        for number, batch in enumerate(work):
            start = time.process_time()
            assert batch().shape == (COUNT, 3, SIZE, SIZE)
            best[number] = max(best[number], COUNT / (time.process_time() - start))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="a photograph to cut pictures from")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    files = pictures(options.picture)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        source = shard(files, Path(folder))
        arms = [(views, together) for views in (1, 2) for together in (False, True)]
        opened = dict(zip(arms, rates([crops_of(source, *arm) for arm in arms], options.rounds), strict=True))
    theirs, mine = rates([open_clips(files), ours(files)], options.rounds)
    kilobytes = sum(map(len, files)) / COUNT / 1000
    print(f"{COUNT} JPEGs of {WIDTH} x {HEIGHT}, {kilobytes:.0f} kB each, to {SIZE} px, one core")
    print(f"{'':36}{'images/s':>9}{'':>4}{'ms each':>8}")
    for name, rate in (("open_clip image_transform(is_train)", theirs), ("equipoise", mine)):
        print(f"{name:36}{rate:>9,.0f}{'':>4}{1000 / rate:>8.2f}")
    print(f"{'ratio':36}{mine / theirs:>9.2f}")
    print(f"\n{'records per second of a shard':36}{'opened for each':>17}{'opened once':>13}{'ratio':>7}")
    for views in (1, 2):
        apart, once = opened[views, False], opened[views, True]
        print(f"{f'crops per record: {views}':36}{apart:>17,.0f}{once:>13,.0f}{once / apart:>7.2f}")


if __name__ == "__main__":
    main()
