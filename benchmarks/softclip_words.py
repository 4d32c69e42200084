"""Where two models look for a noun: Fig. 4b of Gao et al. 2024 (SoftCLIP), Grad-CAM of CLIP beside SoftCLIP.

    python benchmarks/softclip_words.py runs/clip runs/softclip --data softclip-scenes --pictures 4 --out words.png
    python benchmarks/softclip_words.py runs/clip runs/softclip --image photo.jpg --words dog frisbee --out words.png

A row for each picture; for each noun a map of either model. On scenes nouns are names of things ("a red fish"), whose
boxes are drawn, and the share of all asked names whose most relevant place touches the box stands above each model's
maps. *Do not* judge by the pictures: they are few, and the share is what counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from equipoise.analysis.codebook.heatmap import coloured, spread_out
from equipoise.analysis.explain import METHODS
from equipoise.analysis.explain.picture import SIDE, seen_part
from equipoise.analysis.explain.relevance import chosen_method, relevance
from equipoise.analysis.explain.scoring.pointing import pointing
from equipoise.analysis.explain.scoring.scenes import questions
from equipoise.data.decode import read_rgb
from equipoise.io.figures import captioned_figure, png, style
from equipoise.models.model import Model
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_source

NOUNS = 2  # of a picture
TOGETHER = 64


@dataclass(frozen=True)
class Asked:
    """A noun in a picture."""

    picture: int
    noun: str
    box: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class Figure4b:
    pictures: Sequence[Image.Image]  # as the models see them
    asked: Sequence[Asked]
    maps: Sequence[np.ndarray]  # of each model [N, S, S]
    hits: Sequence[float | None]  # of each model


def maps_of(model: Model, pictures: Sequence[Image.Image], asked: Sequence[Asked], method: str) -> np.ndarray:
    """Relevance of places for each noun [N, S, S]."""
    method = chosen_method(model.eval(), method)
    parts = []
    for start in range(0, len(asked), TOGETHER):
        some = asked[start : start + TOGETHER]
        images = model.image_encoder.prepare([pictures[one.picture] for one in some], model.preprocess)
        parts.append(relevance(model, images.to(model.device), [one.noun for one in some], method).places.cpu())
    return torch.cat(parts).numpy()


def of_scenes(data: str, most: int) -> tuple[list[Image.Image], list[Asked]]:
    """Test scenes of several things, and their names."""
    source = find_source(data, (), "test")[0]
    found = questions(source, most)
    numbers = list(dict.fromkeys(one.image for one in found))
    pixels = source.images(numbers, SIDE)
    pictures = [Image.fromarray(one.permute(1, 2, 0).numpy()) for one in _bytes(pixels)]
    return pictures, [Asked(numbers.index(one.image), one.name, one.box) for one in found]


def _bytes(pixels: torch.Tensor) -> torch.Tensor:
    """Pictures [N, 3, H, W] as bytes, whichever way a source has them."""
    pixels = pixels.movedim(-1, 1) if pixels.shape[-1] == 3 else pixels
    return pixels if pixels.dtype == torch.uint8 else (255 * pixels.clamp(0, 1)).round().to(torch.uint8)


def looked(models: Sequence[Model], pictures: Sequence[Image.Image], asked: Sequence[Asked], method: str) -> Figure4b:
    maps = [maps_of(model, pictures, asked, method) for model in models]
    boxes = [one.box for one in asked if one.box]
    known = torch.tensor(boxes) if len(boxes) == len(asked) else None
    hits = [None if known is None else float(pointing(torch.from_numpy(one), known).mean()) for one in maps]
    seen = [seen_part(picture, models[0].preprocess.resize) for picture in pictures]
    return Figure4b(seen, asked, maps, hits)


def draw(found: Figure4b, names: Sequence[str], rows: int, method: str) -> bytes:
    """PNG: rows of pictures, columns of nouns by model."""
    shown = sorted({one.picture for one in found.asked})[:rows]
    most = max(sum(one.picture == number for one in found.asked) for number in shown)
    nouns = most if len(shown) == 1 else min(most, NOUNS)
    said = [f"{name} {100 * hit:.1f}%" for name, hit in zip(names, found.hits, strict=True) if hit is not None]
    caption = f"{method}, on the named thing of {len(found.asked)} asked: {', '.join(said)}." if said else f"{method}."
    size = 1.7 * (1 + 2 * nouns), 1.9 * len(shown) + 1
    with style():
        figure = captioned_figure("Where a noun is seen", caption, *size)
        axes = figure.subplots(len(shown), 1 + 2 * nouns, squeeze=False)
        for line, number in zip(axes, shown, strict=True):
            for place in line:
                place.set_axis_off()
            line[0].imshow(found.pictures[number])
            places = [place for place, one in enumerate(found.asked) if one.picture == number][:nouns]
            for column, place in enumerate(places):
                for side, name in enumerate(names):
                    _heat(line[1 + 2 * column + side], found, place, side, name)
        return png(figure)


def _heat(axes, found: Figure4b, place: int, side: int, name: str) -> None:
    one, places = found.asked[place], found.maps[side][place]
    picture = np.asarray(found.pictures[one.picture])
    axes.imshow(coloured(picture[None], spread_out(places[None], SIDE, 0.5 / len(places)))[0])
    axes.set_title(f"{name}\n{one.noun}", fontsize=8)
    if one.box:
        left, top, right, bottom = (SIDE * edge for edge in one.box)
        axes.plot([left, right, right, left, left], [top, top, bottom, bottom, top], color="white", linewidth=1.2)


def main(words: Sequence[str] | None = None) -> Figure4b:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clip", type=Path)
    parser.add_argument("softclip", type=Path)
    parser.add_argument("--data", default="demo", help="a recipe of scenes")
    parser.add_argument("--pictures", type=int, default=4, help="that are drawn")
    parser.add_argument("--asked", type=int, default=300, help="names of things that are counted")
    parser.add_argument("--image", type=Path, help="a picture of one's own, instead of scenes")
    parser.add_argument("--words", nargs="+", default=[], help="nouns to look for in it")
    parser.add_argument("--method", default="grad_cam", choices=list(METHODS))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(words)
    if bool(options.image) != bool(options.words):
        parser.error("--image and --words belong together")
    if options.image:
        pictures, asked = [read_rgb(options.image)], [Asked(0, noun) for noun in options.words]
    else:
        pictures, asked = of_scenes(options.data, options.asked)
    paths = (options.clip, options.softclip)
    names = [path.name if paths[0].name != paths[1].name else str(path) for path in paths]
    models = [load(path, "auto") for path in paths]
    found = looked(models, pictures, asked, options.method)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(draw(found, names, options.pictures, options.method))
    for name, hit in zip(names, found.hits, strict=True):
        print(f"{name:24}{'' if hit is None else f'{100 * hit:6.1f}% of {len(asked)} names on their thing'}")
    print(f"The picture is {options.out}")
    return found


if __name__ == "__main__":
    main()
