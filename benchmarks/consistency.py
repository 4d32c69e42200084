"""Whether images lie to each other as their texts do: the similarities that CyCLIP's terms compare, drawn of two runs.

    python benchmarks/consistency.py runs/clip runs/cyclip --out consistency.png         # on the test data of the first

A row for each run, of some pairs that have a class, sorted by it: images among themselves, their texts among
themselves, what these differ by (CyCLIP's in-modal term is the mean of its squares, times N), and s(I_i, T_j) -
s(I_j, T_i) (the cross-modal term likewise). Numbers are of all test pairs. Points that all lie close together differ
little: the correlation of image and text similarities does not fall for that. *Do not* judge a method by it: the terms
ask for exactly this, and retrieval is another question, which is printed beside.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from equipoise.data.source import Source, is_labelled
from equipoise.evaluation import EVALUATIONS
from equipoise.evaluation.encoding import Encoded, at_least_float32, has_labels
from equipoise.evaluation.evaluate import to_encode
from equipoise.io.figures import captioned_figure, panel_title, png, style
from equipoise.models.model import Model
from equipoise.objectives.consistency import consistency
from equipoise.types import UserError
from equipoise.workflows.load import load_with_settings

PROTOCOLS = {"consistency": ("consistency_1nn", "consistency_5nn"), "retrieval": ("text_to_image_R@1",)}
PANELS = ("images", "their texts", "difference", "s(I, T) - s(T, I)")


@dataclass(frozen=True)
class Similarities:
    """Of one run: similarities of some pairs [n, n], and numbers of all."""

    images: np.ndarray
    texts: np.ndarray
    across: np.ndarray
    in_modal: float  # root of the mean square over all pairs of pairs
    cross_modal: float
    correlation: float  # of image and text similarities, no pair with itself
    numbers: dict[str, float]


def similarities(model: Model, encoded: Encoded, shown: Sequence[int]) -> Similarities:
    captions, points = encoded.captions(1)
    assert captions.image_of_text.tolist() == list(range(len(encoded.images)))
    images, texts = at_least_float32(encoded.images), at_least_float32(points)
    terms = consistency(images, texts, model.space)
    some = images[list(shown)], texts[list(shown)]
    found = {name: EVALUATIONS[name](encoded).metrics for name in PROTOCOLS}
    return Similarities(
        *(_similarity(model, a, b) for a, b in ((some[0], some[0]), (some[1], some[1]), some)),
        *(math.sqrt(float(term) / len(images)) for term in terms),
        _correlation(_similarity(model, images, images), _similarity(model, texts, texts)),
        {key: float(found[name][key]) for name, keys in PROTOCOLS.items() for key in keys},
    )


def _similarity(model: Model, rows: Tensor, cols: Tensor) -> np.ndarray:
    return model.space.similarity(rows, cols).cpu().numpy()


def _correlation(images: np.ndarray, texts: np.ndarray) -> float:
    others = ~np.eye(len(images), dtype=bool)
    return float(np.corrcoef(images[others], texts[others])[0, 1])


def by_class(source: Source, count: int) -> list[int]:
    """The first pairs of a source that have a label, sorted by it."""
    if not (is_labelled(source) and has_labels(source)):
        raise UserError("the test data has no classes, which the consistency score asks for")
    named = ((str(label), index) for index in range(len(source)) if (label := source.pair(index).label))
    return [index for _, index in sorted(itertools.islice(named, count))]


def draw(found: Sequence[Similarities], names: Sequence[str], pairs: int) -> bytes:
    """PNG: a row for each run."""
    alike = [f"{one.correlation:.2f} ({name})" for name, one in zip(names, found, strict=True)]
    caption = (
        f"Similarities of {len(found[0].images)} test pairs, sorted by class, from -1 (blue) to 1 (red); above "
        f"differences their root mean square over all {pairs:,} pairs. Image and text similarities correlate by "
        f"{', '.join(alike)}."
    )
    with style():
        figure = captioned_figure("Do images lie to each other as their texts do?", caption, 8.0, 2.15 * len(found) + 1)
        grid = figure.subplots(len(found), len(PANELS), squeeze=False)
        for line, name, one in zip(grid, names, found, strict=True):
            apart = one.images - one.texts, one.across - one.across.T
            titles = (*PANELS[:2], f"{PANELS[2]}: {one.in_modal:.2f}", f"{PANELS[3]}: {one.cross_modal:.2f}")
            for axes, values, title in zip(line, (one.images, one.texts, *apart), titles, strict=True):
                axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
                axes.set_xticks([])
                axes.set_yticks([])
                axes.grid(visible=False)
                panel_title(axes, title)
                axes.title.set_fontsize(8)
            line[0].set_ylabel(name, fontsize=10, fontweight="bold")
        return png(figure)


def main(words: Sequence[str] | None = None) -> list[Similarities]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="runs that are compared")
    parser.add_argument("--pairs", type=int, default=48, help="that are drawn")
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    options = parser.parse_args(words)
    loaded = [load_with_settings(path, torch.device("cpu")) for path in options.runs]
    if options.pairs < 2:
        parser.error("--pairs must be at least 2")
    source, settings = loaded[0][1].run.data.build("test"), loaded[0][1].run.evaluation
    shown = by_class(source, options.pairs)
    found = [similarities(model, to_encode(model, source, settings), shown) for model, _ in loaded]
    names = [path.name for path in options.runs]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(draw(found, names, len(source)))
    lines = [
        "| run | in-modal | cross-modal | correlation | consistency, 1 and 5 neighbours | R@1 text → image |",
        "|---|" + "---:|" * 5,
    ]
    for name, one in zip(names, found, strict=True):
        near, most, recall = (f"{100 * one.numbers[key]:.1f}%" for keys in PROTOCOLS.values() for key in keys)
        apart = f"{one.in_modal:.3f} | {one.cross_modal:.3f} | {one.correlation:.2f}"
        lines.append(f"| {name} | {apart} | {near}, {most} | {recall} |")
    print("\n".join(lines), f"The picture is {options.out}", sep="\n\n")
    return found


if __name__ == "__main__":
    main()
