"""A map of codes by modality: the codes of the same samples by each modality and by all of them, in two dimensions.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", Fig. 11 (t-SNE there; PCA here, which has no dial
to turn and shows distances as they are, `embedding_map.py`). The axes are those of all codes together. A line joins a
sample's codes to its joint code: the shorter the lines, the better a modality stands for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equipoise.io.figures import INK, SERIES, style
from equipoise.reports.embedding_map import axis_names, principal_coordinates
from equipoise.reports.held_out import evenly
from equipoise.spaces import Space
from equipoise.types import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAMPLES, LINES = 250, 25  # drawn, at most; samples whose codes are joined by lines
MARKERS = ("o", "D", "^", "s", "v", "P", "X", "*")
JOINT = "joint"


@dataclass(frozen=True)
class ModalMap:
    """Coordinates [n, 2] of the same samples, by kind of code, and what the axes are called."""

    places: Mapping[str, np.ndarray]
    axes: tuple[str, str]


def make_modal_map(codes: Mapping[str, Tensor], space: Space, samples: int = SAMPLES) -> ModalMap | None:
    """The map of codes [N, d] by name, row i of each of sample i; None where there are fewer than two samples."""
    sizes = {name: len(code) for name, code in codes.items()}
    if len(set(sizes.values())) != 1:
        raise UserError(f"a map of codes needs the same samples of each kind, but their numbers are {sizes}")
    chosen = evenly(next(iter(sizes.values())), samples)
    if len(chosen) < 2:
        return None
    points = torch.cat([code[chosen] for code in codes.values()]).double().cpu()
    coordinates, shares = principal_coordinates(points, space)
    places = np.split(coordinates[:, :2], len(codes))
    return ModalMap(dict(zip(codes, places, strict=True)), axis_names(shares))


def draw_modal_map(found: ModalMap) -> Figure:
    """The map as a figure of its own."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 3.6), layout="constrained")
        draw_on(figure.add_subplot(), found)
        figure.legend(loc="outside upper center", ncols=min(len(found.places), 5))
    return figure


def draw_on(axes: Axes, found: ModalMap) -> None:
    """Each kind of code in a colour and a mark of its own; lines lead to the joint code, where there is one."""
    for name, places in found.places.items():
        if JOINT in found.places and name != JOINT:
            for number in evenly(len(places), LINES):
                ends = np.stack([places[number], found.places[JOINT][number]])
                axes.plot(*ends.T, color=INK, linewidth=0.5, alpha=0.35, zorder=1)
    for number, (name, places) in enumerate(found.places.items()):
        colour, marker = SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]
        axes.plot(*places.T, marker, color=colour, markersize=3.4, markeredgewidth=0, alpha=0.8, label=name)
    axes.set_xlabel(found.axes[0])
    axes.set_ylabel(found.axes[1])
    axes.set_aspect("equal", adjustable="datalim")
    axes.tick_params(labelbottom=False, labelleft=False)
