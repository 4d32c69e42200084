"""A folder in which what the pages name is there, only small: the one table of what stands for what."""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from copy_scenes import write as write_copies
from PIL import Image
from snippets.collect import snippets
from snippets.foreign import make_what_is_named

from equipoise.cli import main
from equipoise.config import load_run
from equipoise.data.scenes import Scenes
from equipoise.data.shard_writer import write_shards

# What the pages write, and what is typed in its place; the first that fits.
SPELLED = {
    "{00000..00099}": "{00000..00001}",
    "{000..099}": "{000..001}",
    '["data.root=FOLDER"]': '["data.root=photographs", "training.steps=2", "training.batch_size=8"]',
    "data.root=FOLDER": "data.root=photographs",
    "data.of.root=FOLDER": "data.of.root=cifar",
    "--out FOLDER": "--out out",
    "training.learning_rate=3e-4,1e-3,3e-3 --seeds 3": "training.learning_rate=1e-3",
    "--shots 1 2 4 8 16": "--shots 1",
    "--seconds 20": "--seconds 1",
    "scene-8.png": "photo.jpg",
    "transformers:RESNET": "transformers:resnet",
    "sentence-transformers:MINILM": "sentence-transformers:minilm",
    "sentence-transformers:MPNET": "sentence-transformers:minilm",
    "'train-{000..006}.tar'": "'photographs/train-{000..002}.tar'",
    " dev-000.tar": " photographs/dev-000.tar",
    "open_clip:ViT-B-32:weights.pt": "open_clip:ViT-B-32",
    "--suite zero-shot --data sets": "--suite zero-shot --only cifar10 --data sets",
    "--suite mine.toml": "--suite suite.toml",
    "other/pairs.csv": "photos/pairs.csv",
    "year < 2000": 'label = "logo"',  # of side data that the house has
    'label = "logo"': 'label = "heart"',
    'year >= 2020 and kind = "photo"': 'label != "logo"',
    " --private": "",
    " my-name/": " ./hub/",  # a folder is a hub too
    "data.train=FEATURES --set data.validation=OTHERS": "data.train=train.npz --set data.validation=dev.npz",
    "TRAIN.npz": "train.npz",
    "DEV.npz": "dev.npz",
    "RECIPE --set objective.name=m3mix --set objective.of.name=softclip": "softclip-scenes --set objective.name=m3mix "
    "--set objective.of.name=softclip",
    "RECIPE --set objective.name=unmix --set objective.of.name=softclip": "softclip-scenes --set objective.name=unmix "
    "--set objective.of.name=softclip",
    "RECIPE": "demo",
    "--before MODEL": "--before runs/demo",
    "finetune MODEL": "finetune runs/demo",
    "lab tokens MODEL": "lab tokens runs/multi",
    "eval RUN": "eval runs/few-shot-scenes",
    "import PATH": "import clips/ViT-B-32",
    "$NOISE": "--set data.noise.shuffled=0.4",
}
# Words that make a command quick, behind its own.
ADDED = {
    "lab equilibrium": ["--batch-sizes", "4", "16"],
    "lab landscape": ["--batch-size", "8", "--grid", "3"],
    "lab cost": ["--batch-size", "1", "--class-tokens", "1", "2"],
    "vqa": ["--epochs", "1", "--hidden", "16"],
    "simat": ["--sources", "8"],
    "claims run": ["--scale", "small", "--seeds", "1"],
}
# The runs that the pages name: by which recipe, with which settings.
PLAIN = ("image.activation=gelu", "text.activation=gelu")
RUNS = {
    ("demo", ()): (
        "demo",
        "scenes",
        "other",
        "from-1",
        "from-200",
        "start",
        "clip",
        "clip-short",
        "a",
        "b",
        "untrained",
    ),
    ("clip-scenes", PLAIN): ("mine",),  # a plain CLIP, which other libraries know
    ("fdt-scenes", ()): ("fdt-scenes", "fdt", "codes", "fdt-short"),
    ("coca-scenes", ()): ("coca-scenes", "coca"),
    ("scenes-multi-64x8", ()): ("multi", "product"),
    ("few-shot-scenes", ()): ("few-shot-scenes",),
    ("tcl-scenes", ()): ("tcl-scenes",),
    ("gmc-world", ()): ("gmc-world",),
    ("clap-tones", ()): ("clap-tones",),
}
# Settings of a small run; those that a recipe does not have are left out.
SMALL: dict[str, Any] = {
    "data.train_size": 32, "data.validation_size": 8, "data.test_size": 8, "data.shots": 4,
    "data.of.validation_size": 16, "data.of.test_size": 24, "tokens.vocabulary": 600, "preprocess.size": 32,
    "image.width": 32, "image.layers": 1, "image.heads": 2, "image.patch": 16, "image.dropout": 0,
    "text.width": 32, "text.layers": 1, "text.heads": 2, "space.dim": 16, "readout.codes": 24, "regions.blocks": 1,
    "training.steps": 2, "training.batch_size": 8, "training.warmup_steps": 0, "training.log_every": 1,
    "training.evaluate_every": 0, "training.checkpoint_every": 2, "training.workers": 0, "clean.steps": 2,
    "evaluation.batch_size": 8, "evaluation.rerank": 0, "data.detector.size": 32, "objective.fusion.layers": 1,
    "objective.fusion.heads": 2, "objective.local_side": 2,
}  # fmt: skip
OF_STAGES = ("preprocess.size", "image.width", "image.heads", "image.patch")  # a ResNet or a Swin keeps them
PICTURE = 32  # pixels
WRONG = 'extends = "demo"\nname = "mine"\n\n[data.noise]\nshufled = 0.5\n'  # of docs/recipes.md


def small(recipe: str, overrides: list[str], of_data: bool = False) -> list[str]:
    """Words that make a run of a recipe, with what was already set for it, small; `of_data` leaves the model alone."""
    table = load_run(recipe, overrides).table
    stages = isinstance(table["image"].get("layers"), list)
    found = []
    for key, value in SMALL.items():
        here: Any = table
        for part in key.split("."):
            here = here.get(part) if isinstance(here, dict) else None
        of_model = key.split(".")[0] in ("tokens", "preprocess", "image", "text", "space", "readout", "regions")
        if here is None or (of_data and of_model) or (stages and key in OF_STAGES):
            continue
        if key == "space.dim" and "n" in table["space"]:
            continue
        found += ["--set", f"{key}={json.dumps([1] * len(here) if isinstance(here, list) else value)}"]
    return found


def build(folder: Path) -> None:
    """Make what does not have to be trained."""
    scenes = Scenes.Config(train_size=48, validation_size=16, test_size=16)
    train, held_out = scenes.build("train"), scenes.build("validation")
    _shards(train, folder / "photos", "{:05d}.tar", 24)
    _shards(train, folder / "shards", "{:03d}.tar", 24)
    _shards(train, folder / "photographs", "train-{:03d}.tar", 16)
    _shards(held_out, folder / "photographs", "dev-{:03d}.tar", 16)
    for name in ("fashion_products", "fashion_products_64"):
        _shards(held_out, folder / name, "train-{:03d}.tar", 16)
    pictures = _pictures(train)
    for name in ("cifar10/train", "cifar10/test", "cifar10_train5k", "cifar10_test2k"):
        _class_folders(pictures, folder / name)
    for name in ("cifar10_train5k/train", "cifar10_test2k/test"):
        _class_shard(pictures, folder / "cifar" / f"{name}-000.tar")
    _pairs(pictures, train, folder / "photos")
    pictures[0].save(folder / "photo.jpg")
    (folder / "more").mkdir()
    pictures[1].save(folder / "more" / "new.jpg")
    _own_files(pictures, train, folder)
    _features(folder)
    _modalities(folder)
    write_copies(folder / "sets", originals=3, distractors=4, seed=1)
    recipe = 'extends = "flickr8k"\nname = "mine"\n\n[data]\ntrain = "photos/{00000..00001}.tar"\nvalidation = ""\n'
    (folder / "my-recipe.toml").write_text(recipe, encoding="utf-8")
    (folder / "mine.toml").write_text(WRONG.replace("shufled", "shuffled"), encoding="utf-8")
    flat = next(one.text for one in snippets() if "class Flat(Space)" in one.text)
    (folder / "flat.py").write_text(flat, encoding="utf-8")


def train_what_is_named(folder: Path, text: str) -> None:
    """Train the runs that a text names and that are not there yet."""
    for (recipe, settings), names in RUNS.items():
        named = [name for name in names if f"runs/{name}" in text or (name == "mine" and "clips/" in text)]
        for name in named:
            if (folder / "runs" / name).exists():
                continue
            first = folder / "trained" / names[0]
            if not first.exists():
                sets = [word for setting in settings for word in ("--set", setting)]
                words = ["train", recipe, "--out", str(first), "--quiet", *sets, *small(recipe, list(settings))]
                assert main(words) == 0
            shutil.copytree(first, folder / "runs" / name)
    _index_what_is_named(folder, text)
    if (pulled := re.search(r"pull \./hub/(\w+)", text)) and "push" not in text:
        train_what_is_named(folder, "runs/demo")
        assert main(["push", str(folder / "runs" / "demo"), str(folder / "hub" / pulled[1])]) == 0
    if "clips/" in text and not (folder / "clips").exists():
        words = ["--to", "open_clip", "--out", str(folder / "clips" / "ViT-B-32")]
        assert main(["export", str(folder / "runs" / "mine"), *words]) == 0
    make_what_is_named(folder, text)


def _index_what_is_named(folder: Path, text: str) -> None:
    """Index what a text searches and does not make, by the model that it names beside it."""
    for name in {*re.findall(r"indexes/(\w+)", text)} - {*re.findall(r"--out indexes/(\w+)", text)}:
        lines = "\n".join(line for line in text.splitlines() if f"indexes/{name}" in line)
        model = re.search(r"runs/(\w+)", lines)
        run, place = folder / "runs" / (model[1] if model else "demo"), folder / "indexes" / name
        if not run.exists():
            train_what_is_named(folder, "runs/demo")
        shutil.rmtree(place, ignore_errors=True)  # of another model
        data = str(folder / "photos" / "{00000..00001}.tar")
        assert main(["index", "build", str(run), data, "--out", str(place), "--quiet"]) == 0


def _modalities(folder: Path) -> None:
    """mosi_utterances.npz, and the pickle of MulT's form: both of noise."""
    chance, widths = np.random.default_rng(0), {"text": 100, "audio": 73, "video": 100}
    arrays = {}
    for split, count in (("train", 40), ("test", 12)):
        arrays |= {f"{split}_{name}": chance.normal(size=(count, w)).astype("f4") for name, w in widths.items()}
        arrays |= {f"{split}_label": np.arange(count) % 2}
        arrays |= {f"{split}_id": np.array([f"{split}{number // 4}_{number % 4}" for number in range(count)])}
    np.savez(folder / "mosi_utterances.npz", **arrays)
    splits = {
        split: {name: chance.normal(size=(6, 5, 4)) for name in ("text", "audio", "vision")}
        | {"labels": chance.uniform(-3, 3, (6, 1, 1))}
        for split in ("train", "valid", "test")
    }
    (folder / "mosei_senti_data.pkl").write_bytes(pickle.dumps(splits))


def _shards(source: Any, folder: Path, name: str, each: int) -> None:
    made = write_shards(source, folder / "new", PICTURE, each, lambda *_: None)
    for number, shard in enumerate(sorted(made)):
        shard.rename(folder / name.format(number))
    shutil.rmtree(folder / "new")


def _pictures(source: Any) -> list[Image.Image]:
    pixels = source.images(range(len(source)), PICTURE)
    return [Image.fromarray(picture.permute(1, 2, 0).numpy()) for picture in pixels]


def _class_folders(pictures: list[Image.Image], folder: Path) -> None:
    for number, picture in enumerate(pictures):
        place = folder / ("star", "fish")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        picture.save(place / f"{number}.png")


def _class_shard(pictures: list[Image.Image], path: Path) -> None:
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w") as shard:
        for number, picture in enumerate(pictures):
            encoded = io.BytesIO()
            picture.save(encoded, "PNG")
            for ending, content in (("png", encoded.getvalue()), ("cls", str(number % 2).encode())):
                entry = tarfile.TarInfo(f"{number:04d}.{ending}")
                entry.size = len(content)
                shard.addfile(entry, io.BytesIO(content))
    (path.parent / "classnames.txt").write_text("star\nfish\n", encoding="utf-8")
    (path.parent / "templates.txt").write_text("a photo of {c}\n", encoding="utf-8")


def _pairs(pictures: list[Image.Image], source: Any, folder: Path) -> None:
    with (folder / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("filepath", "title"))
        for number, picture in enumerate(pictures):
            picture.save(folder / f"{number}.jpg")
            rows.writerow((f"{number}.jpg", source.pair(number).captions[0]))


def _own_files(pictures: list[Image.Image], source: Any, folder: Path) -> None:
    """pairs.csv, other.jsonl and captions_train2017.json, with their pictures in a folder beside them."""
    (folder / "pictures").mkdir()
    rows = []
    for number, picture in enumerate(pictures):
        picture.save(folder / "pictures" / f"{number}.jpg")
        rows += [(number, caption) for caption in source.pair(number).captions[:2]]
    named = [(f"pictures/{number}.jpg", caption) for number, caption in rows]
    with (folder / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("filepath", "title"), *named])
    lines = (json.dumps({"image": path, "caption": caption}) for path, caption in named)
    (folder / "other.jsonl").write_text("\n".join(lines), encoding="utf-8")
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(len(pictures))]
    annotations = [{"image_id": number, "caption": caption} for number, caption in rows]
    coco = json.dumps({"images": images, "annotations": annotations})
    (folder / "captions_train2017.json").write_text(coco, encoding="utf-8")


def _features(folder: Path) -> None:
    draw = np.random.default_rng(0)
    for name, count in (("train.npz", 64), ("dev.npz", 16)):
        image, text = (draw.normal(size=(count, SMALL["image.width"])).astype(np.float32) for _ in range(2))
        np.savez(folder / name, image=image, text=text)
