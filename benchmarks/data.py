"""Images a second from JPEG bytes to a training batch, beside open_clip's transform: `python benchmarks/data.py`.

500 x 375 JPEGs of quality 90 become 224-pixel crops, normalised, on one core. Both draw the same kind of crop (90% to
100% of the area, open_clip's own default). Seconds are the core's own, so that other work on the machine matters
little. `--picture FILE` takes a photograph instead of drawn scenes.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from open_clip_peer import make_torchvision_importable
from PIL import Image

from equipoise.data.bad_records import Fault
from equipoise.data.files.image_source import Pictures
from equipoise.data.preprocess import Preprocess, crop_draws
from equipoise.data.scenes import Scenes
from equipoise.data.source import Pair

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
        draws = crop_draws(len(files), generator)
        return preprocess.normalised(
            source.crops(range(len(files)), SIZE, lambda sizes: preprocess.boxes(sizes, draws))
        )

    return batch


def open_clips(files: list[bytes]) -> Callable[[], torch.Tensor]:
    make_torchvision_importable()
    from open_clip import image_transform

    transform = image_transform(SIZE, is_train=True)
    return lambda: torch.stack([transform(Image.open(io.BytesIO(data))) for data in files])


def rates(work: Sequence[Callable[[], torch.Tensor]]) -> list[float]:
    """Images a second of each, the best of several rounds that take turns."""
    best = [0.0] * len(work)
    for _ in range(ROUNDS):
        for number, batch in enumerate(work):
            start = time.process_time()
            assert batch().shape == (COUNT, 3, SIZE, SIZE)
            best[number] = max(best[number], COUNT / (time.process_time() - start))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="a photograph to cut pictures from")
    files = pictures(parser.parse_args().picture)
    torch.set_num_threads(1)
    theirs, mine = rates([open_clips(files), ours(files)])
    kilobytes = sum(map(len, files)) / COUNT / 1000
    print(f"{COUNT} JPEGs of {WIDTH} x {HEIGHT}, {kilobytes:.0f} kB each, to {SIZE} px, one core")
    print(f"{'':36}{'images/s':>9}{'':>4}{'ms each':>8}")
    for name, rate in (("open_clip image_transform(is_train)", theirs), ("equipoise", mine)):
        print(f"{name:36}{rate:>9,.0f}{'':>4}{1000 / rate:>8.2f}")
    print(f"{'ratio':36}{mine / theirs:>9.2f}")


if __name__ == "__main__":
    main()
