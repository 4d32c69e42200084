"""The sound files that cases damage: `python tests/fuzz/seeds.py FOLDER` writes them, in a process of its own.

model/         a model folder            run/       a run that stopped after two steps, to be resumed
shards/        a.tar, eight records      table/     pairs.csv, .tsv, .parquet and their pictures
pictures/      one of each format        features/  a.npz, a.safetensors with its a.json, a.parquet
regions/       of the shards             keep/      a keep file of the shards
open_clip/, transformers/, weights/      what `equipoise import` reads
recipe/        a recipe                  tokenizers/ of both kinds
suspects/      a keep file of the model's training data
"""

from __future__ import annotations

import hashlib
import io
import shutil
import sys
import tarfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

sys.path.append(str(Path(__file__).parents[1]))
from serve.served import keep_folder

import equipoise as eq
from equipoise.cli import main
from equipoise.config import load_run, load_stored
from equipoise.data.files.webdataset import Shards
from equipoise.data.keep.file import KeepTable, digest, write_keep
from equipoise.data.keep.records import records
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.folder import WEIGHTS, step_folders
from equipoise.workflows.train_model import train_run

CAPTIONS = ["a red fish on a table", "a blue fish's tail", "the green star, 3 of them", "two cats"]
MODEL = """
extends = "demo"
tokens.vocabulary = 530
tokens.context = 24
preprocess.size = 16
image.patch = 8
image.width = 8
image.heads = 2
image.layers = 1
image.activation = "gelu"
text.activation = "gelu"
text.width = 8
text.heads = 2
text.layers = 1
space.dim = 8
"""
TRAINING = """
[data]
train_size = 16
validation_size = 4
test_size = 4
[training]
device = "cpu"
steps = 2
batch_size = 4
log_every = 1
checkpoint_every = 1
"""


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe").mkdir()
    (folder / "recipe" / "r.toml").write_text(MODEL + TRAINING)
    train_run(load_run(folder / "recipe" / "r.toml"), folder / "run")
    shutil.copytree(folder / "run" / "checkpoints" / "best", folder / "model")
    model = str(folder / "model")
    for to in ("open_clip", "transformers"):
        if main(["export", model, "--to", to, "--out", str(folder / to)]):
            raise SystemExit(f"the seed cannot be exported to {to}")
    (folder / "weights").mkdir()
    shutil.copytree(folder / "open_clip", folder / "weights", dirs_exist_ok=True)
    state = eq.interop.load.read_checkpoint(folder / "open_clip" / "open_clip_model.safetensors")
    torch.save(state, folder / "weights" / "w.pt")
    torch.save({"state_dict": state, "epoch": 1}, folder / "weights" / "w.bin")
    (folder / "resumed").write_text(resumed(folder / "run", folder / "again"))
    pictures(folder / "pictures")
    pairs(folder)
    features(folder / "features")
    if main(["regions", str(folder / "shards" / "a.tar"), "--out", str(folder / "regions"), "--per-file", "4"]):
        raise SystemExit("the seed has no regions")
    keep_file(folder / "keep", folder / "shards" / "a.tar")
    shard = str(folder / "shards" / "a.tar")
    Shards(train=shard, validation=shard, cache=str(folder / "index")).build("train")
    keep_folder(folder / "model", folder / "suspects")
    for kind in ("bpe", "wordpiece"):
        tokens = CaptionTokenizer.train(CAPTIONS * 3, CaptionTokenizer.Config(kind=kind, vocabulary=530, context=16))
        (folder / "tokenizers" / kind).mkdir(parents=True)
        tokens.save(folder / "tokenizers" / kind)


def resumed(run: Path, copy: Path) -> str:
    """The digest of the weights after one step more, undisturbed."""
    shutil.copytree(run, copy)
    train_run(load_stored(copy / "config.toml", ["training.steps=3"]), copy)
    return hashlib.sha256((step_folders(copy)[-1] / WEIGHTS).read_bytes()).hexdigest()


def picture(seed: int, mode: str = "RGB") -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 255, (20, 24, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def pictures(folder: Path) -> None:
    folder.mkdir()
    for name in ("a.jpg", "a.png", "a.webp", "a.gif", "a.bmp", "a.tiff"):
        picture(1).save(folder / name)
    picture(2, "CMYK").save(folder / "cmyk.jpg")
    picture(2, "L").save(folder / "grey.jpg")
    picture(3, "P").save(folder / "palette.png")
    picture(3, "RGBA").save(folder / "alpha.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    picture(4).save(folder / "turned.jpg", exif=turned)


def jpeg(seed: int) -> bytes:
    out = io.BytesIO()
    picture(seed).save(out, "JPEG")
    return out.getvalue()


def pairs(folder: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    (folder / "shards").mkdir()
    (folder / "table").mkdir()
    with tarfile.open(folder / "shards" / "a.tar", "w") as tar:
        for number in range(8):
            words = f"{CAPTIONS[number % 4]} {number}"
            facts = f'{{"label": "fish", "tags": ["red"], "boxes": [[0, 0, 1, 0.{number + 1}]], "caption": "{words}"}}'
            for suffix, data in (
                ("jpg", jpeg(number)),
                ("txt", f"{words}\nmore of it".encode()),
                ("json", facts.encode()),
            ):
                info = tarfile.TarInfo(f"{number:03}.{suffix}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            (folder / "table" / f"{number}.jpg").write_bytes(jpeg(number))
    rows = [(f"{number}.jpg", f"{CAPTIONS[number % 4]} {number}") for number in range(8)]
    for name, mark in (("pairs.csv", ","), ("pairs.tsv", "\t")):
        lines = [mark.join(("filepath", "title")), *(f'{path}{mark}"{words}"' for path, words in rows)]
        (folder / "table" / name).write_text("\n".join(lines) + "\n")
    table = pyarrow.table({"filepath": [path for path, _ in rows], "title": [words for _, words in rows]})
    parquet.write_table(table, folder / "table" / "pairs.parquet")


def features(folder: Path) -> None:
    import json

    import pyarrow
    from pyarrow import parquet
    from safetensors.torch import save_file

    folder.mkdir()
    make = np.random.default_rng(0)
    image, text = (make.standard_normal((6, 4)).astype(np.float32) for _ in "ab")
    keys = [f"k{number}" for number in range(6)]
    np.savez(folder / "a.npz", image=image, text=text, keys=np.array(keys), label=np.array(["x"] * 6))
    save_file({"image": torch.from_numpy(image), "text": torch.from_numpy(text)}, folder / "a.safetensors")
    (folder / "a.json").write_text(json.dumps({"keys": keys, "captions": keys, "label": keys}))
    columns = {"image": image.tolist(), "text": text.tolist(), "keys": keys, "captions": keys}
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet")


def keep_file(folder: Path, shard: Path) -> None:
    source = Shards(train=str(shard), validation=str(shard)).build("train")
    keys, captions, prints = [], [], []
    for key, texts in records(source):
        keys += [key] * len(texts)
        captions += range(len(texts))
        prints += list(texts)
    count = len(keys)
    keep = np.arange(count) % 3 > 0
    folder.mkdir()
    write_keep(
        folder,
        KeepTable(
            keys, np.array(captions), np.array(prints), np.linspace(0, 1, count), keep, np.ones(count), ["why"] * count
        ),
        {"records": len(source), "captions": count, "digest": digest(keys), "noise": 0.3, "rule": "threshold"},
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
