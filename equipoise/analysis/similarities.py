"""How similar pairs are that belong together, and pairs that do not: four distributions.

Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", App. D and Fig. 8.

    positive   s(u_i, v_i)               negative  s(u_i, v_j), i ≠ j        image-text
    images     s(u_i, u_j), i ≠ j        texts     s(v_i, v_j), i ≠ j        within one side

u, v [N, d] points of N pairs, one text an image; s the space's similarity, without logit scale (the paper draws its
negative, a distance). `confused` is the share of negatives closer than the positive of the same image.
A negative is any other pair's text: where captions repeat, or fit several pictures, some negatives are true matches.
Similarities are made in tiles, visited twice (for the range, then to be counted), so memory does not grow with N².

`draw_similarities` is Fig. 8, one panel per set of data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equipoise.analysis.sampled_pairs import SampledPoints, on_diagonal, tiles
from equipoise.io.figures import SERIES, captioned_figure, panel_title, style
from equipoise.spaces import Space
from equipoise.types import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TILE = 1024
LABELS = {
    "positive": "image and its text",
    "negative": "image and another text",
    "images": "two images",
    "texts": "two texts",
}
KINDS = tuple(LABELS)
COLOURS = dict(zip(LABELS, (SERIES[2], SERIES[1], SERIES[0], SERIES[3]), strict=True))


@dataclass(frozen=True)
class Spread:
    """The distribution of one kind of similarity."""

    counts: list[int]  # of each bin
    total: int
    mean: float
    deviation: float


@dataclass(frozen=True)
class Similarities:
    edges: list[float]  # of the bins, one more than there are
    spreads: dict[str, Spread]  # by kind
    confused: float  # share of negatives closer than the positive of their image


@torch.no_grad()
def similarities(points: SampledPoints, space: Space, bins: int = 80) -> Similarities:
    """The four distributions over one set of bins."""
    lowest, highest = _range(points, space)
    width = (highest - lowest) / bins
    counts = {kind: torch.zeros(bins, dtype=torch.int64) for kind in KINDS}
    moments = dict.fromkeys(KINDS, (0, 0.0, 0.0))
    own, above = _own(points, space), 0
    for kind, rows, values in _visited(points, space):
        place = ((values - lowest) / width).long().clamp_(0, bins - 1)
        counts[kind] += torch.bincount(place, minlength=bins).cpu()
        number, total, squares = moments[kind]
        moments[kind] = (number + len(values), total + float(values.sum()), squares + float(values.square().sum()))
        if kind == "negative":
            above += int((values > own[rows]).sum())
    spreads = {kind: _spread(counts[kind], *moments[kind]) for kind in KINDS}
    edges = [*(lowest + width * number for number in range(bins)), highest]
    return Similarities(edges, spreads, above / spreads["negative"].total)


def _visited(points: SampledPoints, space: Space) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Kind, row and value of every similarity, tile by tile, in float64; within one side each pair comes twice."""
    images, texts = points
    sides = (("negative", images, texts), ("images", images, images), ("texts", texts, texts))
    for r, c in tiles(len(images), len(images), TILE):
        diagonal = on_diagonal(r, c, images.device)
        rows = torch.arange(r.start, r.stop, device=images.device)[:, None].expand_as(diagonal)
        for kind, first, second in sides:
            values = space.similarity(first[r], second[c]).double()
            yield kind, rows[~diagonal], values[~diagonal]
            if kind == "negative":
                yield "positive", rows[diagonal], values[diagonal]


def _own(points: SampledPoints, space: Space) -> Tensor:
    """The similarity of every pair, as the tiles have it [N]."""
    own = torch.empty(len(points.images), dtype=torch.float64, device=points.images.device)
    for r, c in tiles(len(own), len(own), TILE):
        if r == c:
            own[r] = space.similarity(points.images[r], points.texts[c]).double().diagonal()
    return own


def _range(points: SampledPoints, space: Space) -> tuple[float, float]:
    if len(points.images) < 2:
        raise UserError("one pair has no negatives; give at least two")
    ends = [(float(values.min()), float(values.max())) for _, _, values in _visited(points, space) if len(values)]
    lowest, highest = min(low for low, _ in ends), max(high for _, high in ends)
    if not math.isfinite(lowest) or not math.isfinite(highest):
        raise UserError("some similarities are not finite: look for NaN in the model's weights")
    return lowest, highest if highest > lowest else lowest + 1e-6  # all equal: one full bin


def _spread(counts: Tensor, number: int, total: float, squares: float) -> Spread:
    mean = total / number
    return Spread(counts.tolist(), number, mean, math.sqrt(max(0.0, squares / number - mean * mean)))


def draw_similarities(found: Mapping[str, Similarities], finding: str) -> Figure:
    """`found` by the name of the data."""
    with style():
        figure = captioned_figure("How similar pairs are", finding, height=1.5 + 2.2 * len(found))
        panels = np.atleast_1d(figure.subplots(len(found), 1, sharex=True))
        for axes, (name, one) in zip(panels, found.items(), strict=True):
            _panel(axes, one)
            panel_title(axes, name)
            axes.set_ylabel("density")
        panels[-1].set_xlabel("similarity (without logit scale)")
        panels[0].legend(loc="upper left")
    return figure


def _panel(axes: Axes, found: Similarities) -> None:
    edges = np.array(found.edges)
    for kind, spread in found.spreads.items():
        density = np.array(spread.counts) / (spread.total * np.diff(edges))
        axes.stairs(density, edges, color=COLOURS[kind], linewidth=1.6, label=LABELS[kind])
        axes.stairs(density, edges, color=COLOURS[kind], fill=True, alpha=0.14)
        axes.axvline(spread.mean, color=COLOURS[kind], linewidth=1, linestyle=(0, (3, 2)))
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
