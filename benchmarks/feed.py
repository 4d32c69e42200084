"""What feeding a model costs a core, and how many cores a model takes: `python benchmarks/feed.py`.

Pictures are the two photographs that come with scikit-learn (640 x 427), moved along by a few pixels each so that no
two files are the same, or those of `--picture FILE ...`. They are read as they are and as `equipoise data prepare
--size 256` writes them; crops are 224 pixels (32 for that of `demo`), 90% to 100% of the area. Captions are those of
`--captions SHARD ...`, else of scenes, and no caption was met before, as in a data set of millions. Seconds are the
core's own, the best of rounds that take turns, so that other work on the machine matters little.

Two tables: where the time of a pair goes, and how many cores keep a model busy. `--prepare` instead: `equipoise data
prepare` beside its bound, which is decoding and encoding alone, and by one and by two processes. The last two are by
the clock, without the start of the command, and other work disturbs them. `--threads 1 2 ...` instead: the same
pictures as `embed`, `audit`, `clean` and evaluation read them, squares of 224 pixels resized as Pillow does, by as
many threads; by the clock too.
"""

from __future__ import annotations

import argparse
import io
import itertools
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from equipoise.data.batches import Batches
from equipoise.data.encoded_image import encoded
from equipoise.data.files import Shards
from equipoise.data.files.image_source import Pictures
from equipoise.data.files.prepare import Prepare
from equipoise.data.files.prepare_parts import prepare_writer
from equipoise.data.files.records import Records
from equipoise.data.preprocess import Preprocess, crop_draws
from equipoise.data.scenes import Scenes
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.data.tokenizer_memory import PieceMemory

COUNT, ROUNDS, QUALITY = 64, 40, 90
PREPARED, SHARDS, WINDOW = 256, 24, 8  # pixels of the shorter side; shards that processes share; of these, timed
LARGE, SMALL = 224, 32  # pixels of the crops
TURNS = 8
MODELS = {  # pairs a second that a model takes in training (docs/performance.md), of which size
    "ViT-B/32, bf16, compiled, one H200": (13_600, LARGE),
    "ViT-B/16, bf16, compiled, one H200": (3_665, LARGE),
    "the model of `demo`, two CPU cores": (664, SMALL),
}


def photographs(files: Sequence[Path]) -> list[bytes]:
    """COUNT different JPEGs of the pictures in `files`."""
    opened = [np.asarray(Image.open(file).convert("RGB")) for file in files or _sample_photographs()]
    return [_jpeg(np.roll(opened[number % len(opened)], 2 * number, axis=1)) for number in range(COUNT)]


def _sample_photographs() -> list[Path]:
    try:
        import sklearn.datasets
    except ImportError:
        raise SystemExit("scikit-learn, which brings photographs, is not installed; give --picture FILE") from None
    folder = Path(sklearn.datasets.__file__).parent / "images"
    return [folder / "china.jpg", folder / "flower.jpg"]


def _jpeg(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def captions_of(shards: Sequence[Path]) -> list[str]:
    """COUNT different captions."""
    source = opened(shards) if shards else Scenes.Config(train_size=4 * COUNT, cache=False).build("train")
    found = dict.fromkeys(caption for index in range(len(source)) for caption in source.pair(index).captions)
    return list(found)[:COUNT]


def opened(shards: Sequence[Path]) -> Pictures:
    names = tuple(map(str, shards))
    return Shards(train=names, validation=names).build("train")


def write_shard(files: Sequence[bytes], captions: Sequence[str], path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        for number, (data, caption) in enumerate(zip(files, captions, strict=True)):
            for name, content in ((f"{number:05d}.jpg", data), (f"{number:05d}.txt", caption.encode())):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return path


class Parts:
    """The work of one batch of COUNT pairs, by its parts; and all of it, as training does it."""

    def __init__(self, source: Pictures, tokens: CaptionTokenizer, size: int):
        self.source, self.tokens, self.size = source, tokens, size
        crops = Preprocess(size, crop_scale=(0.9, 1.0))
        self.records = [source.open(index) for index in range(COUNT)]
        sizes = torch.tensor([[record.image.height, record.image.width] for record in self.records])
        self.boxes = crops.boxes(sizes, crop_draws(COUNT, torch.Generator().manual_seed(0))).tolist()
        self.captions = [record.pair.captions[0] for record in self.records]
        self.batches = Batches(source, tokens, crops, batch_size=COUNT, seed=0)

    def read(self) -> None:
        """Bytes and captions of the shard, and headers."""
        for index in range(COUNT):
            self.source.open(index)

    def decode(self) -> None:
        for record in self.records:
            record.image.pixels()

    def decode_and_crop(self) -> None:
        for record, box in zip(self.records, self.boxes, strict=True):
            record.image.crops([box], self.size)

    def tokenize(self) -> None:
        forget(self.tokens)
        self.tokens.leaves_nothing(self.captions)
        self.tokens(self.captions)

    def pad(self) -> None:
        """Tokens of captions that were cut just now."""
        self.tokens.leaves_nothing(self.captions)
        self.tokens(self.captions)

    def whole(self) -> None:
        forget(self.tokens)
        self.batches.make(0, "cpu")

    @property
    def work(self) -> tuple[Callable[[], None], ...]:
        return (self.read, self.decode, self.decode_and_crop, self.tokenize, self.pad, self.whole)


def milliseconds(found: Sequence[float]) -> dict[str, float]:
    """Of one pair, by part, from the seconds of `Parts.work`."""
    read, decode, both, tokenize, pad, whole = (1000 * each / COUNT for each in found)
    parts = {"reading": read, "decoding": decode, "crop and resize": both - decode}
    parts |= {"tokenizing: what a cache could save": tokenize - pad, "tokenizing: padding and the like": pad}
    return {**parts, "the rest": whole - sum(parts.values()), "all of it": whole}


def forget(tokens: CaptionTokenizer) -> None:
    """No caption was cut before and none is kept: a source of more captions than are kept in memory."""
    tokens._pieces = PieceMemory(tokens._cut, kept=0)


def seconds(work: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The core's seconds of each, the best of several rounds that take turns."""
    best = [float("inf")] * len(work)
    for _ in range(rounds):
        for number, one in enumerate(work):
            start = time.process_time()
            one()
            best[number] = min(best[number], time.process_time() - start)
    return best


def feeding(files: Sequence[bytes], captions: Sequence[str], folder: Path) -> tuple[dict[str, Parts], dict[str, Parts]]:
    """The work for large and for small crops, of the pictures as they are and prepared."""
    tokens = CaptionTokenizer.train(captions, CaptionTokenizer.Config())
    whole = opened([write_shard(files, captions, folder / "a.tar")])
    smaller = opened(prepared(whole.records, folder / "prepared"))
    sources = {_described(source): source for source in (whole, smaller)}
    large, small = ({name: Parts(one, tokens, size) for name, one in sources.items()} for size in (LARGE, SMALL))
    return large, small


def prepared(records: Records, folder: Path) -> list[Path]:
    """The shards of `equipoise data prepare`, by this process."""
    folder.mkdir()
    writer = prepare_writer(records, folder, Prepare(PREPARED))
    writer.write_missing("preparing")
    return writer.files.paths()


def _described(source: Pictures) -> str:
    images = [source.encoded(index) for index in range(COUNT)]
    kilobytes = sum(len(image.data) for image in images) / COUNT / 1000
    return f"{images[0].width} x {images[0].height}, {kilobytes:.0f} kB"


def print_feeding(large: dict[str, Parts], small: dict[str, Parts], rounds: int) -> None:
    names, work = list(large), [step for one in large.values() for step in one.work]
    found = seconds([*work, *(one.whole for one in small.values())], rounds)
    parts = len(work) // len(large)
    columns = [milliseconds(found[start : start + parts]) for start in range(0, len(work), parts)]
    print(f"| ms of a core for one pair | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for part in columns[0]:
        cells = [f"{one[part]:.2f} ({one[part] / one['all of it']:.1%})" for one in columns]
        print(f"| {part} | {' | '.join(cells)} |")
    rates = {LARGE: [1000 / one["all of it"] for one in columns]}
    rates[SMALL] = [COUNT / each for each in found[len(work) :]]
    print(f"\n| model | crops | pairs/s | {' | '.join(f'pairs/s of a core, {name} | cores' for name in names)} |")
    print(f"|---|{'---:|' * (2 + 2 * len(names))}")
    for model, (speed, size) in MODELS.items():
        cells = [f"{rate:,.0f} | {speed / rate:,.1f}" for rate in rates[size]]
        print(f"| {model} | {size} px | {speed:,} | {' | '.join(cells)} |")


def print_preparing(files: Sequence[bytes], captions: Sequence[str], folder: Path, rounds: int) -> None:
    records = opened([write_shard(files, captions, folder / "one.tar")]).records
    many = write_shard([*files] * SHARDS, [*captions] * SHARDS, folder / "many.tar")
    fresh = (folder / f"fresh-{number}" for number in range(rounds))
    work = [lambda: _decode_and_encode(files), lambda: prepared(records, next(fresh))]
    bound, alone = (COUNT / found for found in seconds(work, rounds))
    rates = {"decoding and encoding alone, seconds of a core": bound, "`data prepare`, seconds of a core": alone}
    for processes in (1, 2):
        name = f"`data prepare --processes {processes}`, seconds of the clock"
        rates[name] = _by_the_clock(many, folder / f"by-{processes}", processes)
    print("| | pictures/s | MB/s read | of the bound |\n|---|---:|---:|---:|")
    for name, rate in rates.items():
        print(f"| {name} | {rate:,.0f} | {rate * sum(map(len, files)) / COUNT / 1e6:.1f} | {rate / bound:.0%} |")


def print_threads(files: Sequence[bytes], captions: Sequence[str], folder: Path, counts: Sequence[int]) -> None:
    """Rounds take turns, and the best of each counts."""
    source, best = opened([write_shard([*files] * 4, [*captions] * 4, folder / "a.tar")]), dict.fromkeys(counts, 0.0)
    for _, count in itertools.product(range(TURNS), counts):
        torch.set_num_threads(count)
        start = time.perf_counter()
        source.images(range(len(source)), LARGE)
        best[count] = max(best[count], len(source) / (time.perf_counter() - start))
    print("| threads | pictures/s by the clock | of the first |\n|---:|---:|---:|")
    for count, rate in best.items():
        print(f"| {count} | {rate:,.0f} | {rate / best[counts[0]]:.2f} |")


def _decode_and_encode(files: Sequence[bytes]) -> None:
    """What cannot be spared: a whole picture is decoded, and one of the smaller size is encoded."""
    for data in files:
        image = encoded(data, "")
        pixels, shorter = image.pixels(), min(image.height, image.width)
        _jpeg(np.ascontiguousarray(pixels[: PREPARED * image.height // shorter, : PREPARED * image.width // shorter]))


def _by_the_clock(shard: Path, folder: Path, processes: int) -> float:
    """Pictures a second of the command once it runs: of the WINDOW shards that followed each other fastest."""
    command = [sys.executable, "-m", "equipoise", "data", "prepare", shard, folder, "--size", PREPARED]
    options = ["--per-shard", COUNT, "--processes", processes]
    subprocess.run([*map(str, (*command, *options))], check=True, capture_output=True)
    done = sorted(path.stat().st_mtime for path in folder.glob("*.tar"))
    return WINDOW * COUNT / min(late - early for early, late in zip(done, done[WINDOW:], strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path, nargs="+", default=(), help="photographs instead of scikit-learn's")
    parser.add_argument("--captions", type=Path, nargs="+", default=(), help="shards with captions")
    parser.add_argument("--prepare", action="store_true", help="the speed of `equipoise data prepare` instead")
    parser.add_argument("--threads", type=int, nargs="+", help="reading without training, by so many threads, instead")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if options.threads and min(options.threads) < 1:
        parser.error("--threads counts threads, of which there is at least 1")
    torch.set_num_threads(1)
    files, captions = photographs(options.picture), captions_of(options.captions)
    with tempfile.TemporaryDirectory() as folder:
        if options.threads:
            print_threads(files, captions, Path(folder), options.threads)
        elif options.prepare:
            print_preparing(files, captions, Path(folder), options.rounds)
        else:
            print_feeding(*feeding(files, captions, Path(folder)), options.rounds)


if __name__ == "__main__":
    main()
