"""The same pictures and captions in every form that files may have, and a model that knows all of them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import torch
from class_pictures import COLOURS
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

import equipoise as eq
from equipoise.config import load_stored
from equipoise.data.files.classes import DEFAULT_TEMPLATES
from equipoise.models.folder import save_model
from equipoise.models.model import Model
from equipoise.settings.toml import dump

CLASSES = [name.replace("_", " ") for name in COLOURS]
EACH = 2  # captions of a picture
FORMATS = (
    "pairs.csv",  # a row per caption, as are .tsv, .jsonl
    "pairs.tsv",
    "pairs.jsonl",
    "coco.json",
    "paths.parquet",  # a row per caption
    "rows.parquet",  # the same with the pictures inside, as {bytes, path}
    "hub",  # a folder of two Parquet files with pictures inside and lists of captions
    "plain.parquet",  # pictures as plain bytes, all captions in one field
    "texts",  # pictures with .txt beside them
    "shards",
    "classes",
    "alone",  # pictures without captions
)


def png(number: int) -> bytes:
    """A picture of its own: coarse noise in the colour of its class."""
    random = np.random.default_rng(number)
    colour = np.array(list(COLOURS.values())[number % 3])
    coarse = np.clip(colour + random.integers(-70, 70, (4, 4, 3)), 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(coarse.repeat(8, 0).repeat(8, 1)).save(buffer, "PNG")
    return buffer.getvalue()


def captions(number: int) -> list[str]:
    """Captions that no other picture has, with a comma, a quote and letters beyond ASCII."""
    kind = CLASSES[number % 3]
    return [f'café {number}, all "{kind}"', f"the {kind} wall of house {number}"]


def write_formats(folder: Path, count: int) -> dict[str, str]:
    """DATA in every form, by name."""
    pictures = {f"{number:03d}.png": png(number) for number in range(count)}
    for name, data in pictures.items():
        _write(folder / "alone" / name, data)
        _write(folder / "texts" / name, data)
        _write(folder / "classes" / list(COLOURS)[int(name[:3]) % 3] / name, data)
        _write(folder / "texts" / f"{name[:3]}.txt", "\n".join(captions(int(name[:3]))).encode())
    rows = [(f"alone/{name}", text) for number, name in enumerate(pictures) for text in captions(number)]
    _write(folder / "pairs.csv", _text_table(rows, ","))
    _write(folder / "pairs.tsv", _text_table(rows, "\t"))
    lines = [json.dumps({"img": path, "text": text}) for path, text in rows]
    _write(folder / "pairs.jsonl", "\n".join(lines).encode())
    _write(folder / "coco.json", json.dumps(_coco(count)).encode())
    _write_shards(folder / "shards", pictures)
    _write_parquet(folder, rows, pictures)
    return {**{name: str(folder / name) for name in FORMATS}, "shards": f"{folder}/shards/{{00..01}}.tar"}


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _text_table(rows: list[tuple[str, str]], separator: str) -> bytes:
    quoted = ['"{}"'.format(text.replace('"', '""')) for _, text in rows]
    lines = [separator.join((path, text)) for (path, _), text in zip(rows, quoted, strict=True)]
    return "\n".join([separator.join(("filepath", "title")), *lines]).encode()


def _coco(count: int) -> dict[str, object]:
    """Annotations in another order than the images, as MSCOCO's are."""
    images = [{"id": 1000 + number, "file_name": f"{number:03d}.png"} for number in range(count)]
    told = [{"id": 9, "image_id": 1000 + n, "caption": text} for n in reversed(range(count)) for text in captions(n)]
    return {"info": {}, "licenses": [], "images": images, "annotations": told}


def _write_shards(folder: Path, pictures: dict[str, bytes]) -> None:
    folder.mkdir()
    for shard in range(2):
        with tarfile.open(folder / f"{shard:02d}.tar", "w") as tar:
            for name in list(pictures)[shard::2]:
                number = int(name[:3])
                side = {"png": pictures[name], "txt": "\n".join(captions(number)).encode()}
                for ending, data in side.items():
                    entry = tarfile.TarInfo(f"{number:05d}.{ending}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))


def _write_parquet(folder: Path, rows: list[tuple[str, str]], pictures: dict[str, bytes]) -> None:
    """Paths with a row per caption; as Hugging Face's datasets are written, with a row per caption, and in two files
    with lists of captions; and bytes in a column of their own."""
    import pyarrow
    from pyarrow import parquet

    paths, texts = zip(*rows, strict=True)
    parquet.write_table(pyarrow.table({"image": paths, "caption": texts}), folder / "paths.parquet")
    held = [{"bytes": pictures[Path(path).name], "path": None} for path in paths]
    parquet.write_table(pyarrow.table({"image": held, "text": texts}), folder / "rows.parquet", row_group_size=7)
    every = list(enumerate(pictures.items()))
    (folder / "hub").mkdir()
    for part in range(2):
        mine = every[part::2]
        columns = {
            "image": [{"bytes": data, "path": "image.png"} for _, (_, data) in mine],  # as many as there are folders
            "captions": [captions(number) for number, _ in mine],
        }
        parquet.write_table(pyarrow.table(columns), folder / "hub" / f"train-{part:05d}-of-00002.parquet")
    plain = {"txt": ["|".join(captions(n)) for n, _ in every], "png": [data for _, (_, data) in every]}
    parquet.write_table(pyarrow.table(plain), folder / "plain.parquet")


def write_ideal(run: Path, folder: Path, count: int) -> Path:
    """The model of a run with projections that take every picture and its captions to one point, near its class's.

    Its encoders are as they are: their vectors of different inputs are independent, so that the two projections are
    solutions of linear equations.
    """
    model = eq.load(run).double().eval()
    make = torch.Generator().manual_seed(0)
    classes, own = (normalize(torch.randn(n, model.space.dim, generator=make).double()) for n in (len(CLASSES), count))
    points = normalize(classes[torch.arange(count) % len(CLASSES)] + own)
    pictures = [Image.open(io.BytesIO(png(number))) for number in range(count)]
    texts = [text for number in range(count) for text in captions(number)]
    prompts = [template.format(name) for name in CLASSES for template in DEFAULT_TEMPLATES]
    _solve(model, "image", model.image_encoder.prepare(pictures, model.preprocess).double(), target=points)
    words = model.text_encoder.prepare([*texts, *prompts], None, model.tokenizer)
    each = len(DEFAULT_TEMPLATES)
    _solve(
        model, "text", *words, target=torch.cat([points.repeat_interleave(EACH, 0), classes.repeat_interleave(each, 0)])
    )
    save_model(model.float(), folder, dump(load_stored(run / "config.toml").table), {})
    return folder


@torch.no_grad()
def _solve(model: Model, tower: str, *inputs: Tensor, target: Tensor) -> None:
    """Set the projection of a tower so that inputs come to their targets."""
    one = model.tower(tower)
    vectors = one.features(*inputs, with_tokens=False).classes[:, 0]
    assert len(vectors) <= vectors.shape[1], "a wider tower is needed"
    found = torch.linalg.lstsq(vectors, target, driver="gelsd").solution
    one.readout.projection.copy_(found)
