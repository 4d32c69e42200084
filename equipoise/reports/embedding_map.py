"""A map of the embedding: images and captions of the test set in two dimensions.

    PCA     x_i = <p_i - mean, a_k>, a_1 and a_2 the directions in which points p of both kinds together vary most
    UMAP    McInnes et al. 2018, by umap-learn, where a recipe asks for it (`evaluation.map = "umap"`)

Points are taken as they are. In a space whose points are no vectors of one flat space (sets of vectors), the matrix of
similarities S takes the place of inner products (kernel PCA, Schölkopf et al. 1998): eigenvectors of the centred S,
which on a sphere gives PCA itself. The sign of an axis is free, so its largest coordinate is made positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from equipoise.io.figures import INK, SERIES, style
from equipoise.reports.held_out import HeldOut, evenly
from equipoise.spaces import Space
from equipoise.types import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS, LINES = 250, 40  # drawn, at most; pairs that are joined by a line
UMAP_SEED, NEIGHBOURS = 0, 15


@dataclass(frozen=True)
class Sample:
    """Points of n images and of one caption of each, [2n, d]: images first."""

    points: Tensor
    space: Space
    of: int  # pairs in the test set


@dataclass(frozen=True)
class Map:
    """Coordinates [n, 2] of images and of their captions, and what the axes are called."""

    images: np.ndarray
    texts: np.ndarray
    axes: tuple[str, str]


def require_map(method: str) -> None:
    """Raise UserError where the method's package is missing, before a run has begun."""
    if method == "umap" and find_spec("umap") is None:
        raise UserError(
            "evaluation.map is umap, which needs umap-learn; pip install 'equipoise[umap]', or leave it at pca"
        )


def sample_pairs(data: HeldOut, pairs: int = PAIRS) -> Sample | None:
    """Pairs evenly spaced in the test set, each image with its first caption; None where they are fewer than two."""
    first = torch.diff(data.owners, prepend=data.owners.new_tensor([-1])) != 0  # captions come in the order of images
    texts = first.nonzero().flatten()
    chosen = texts[evenly(len(texts), pairs)]
    if len(chosen) < 2:
        return None
    points = torch.cat([data.images[data.owners[chosen].tolist()], data.texts[chosen.tolist()]])
    return Sample(points.double().cpu(), data.model.space, len(texts))


def make_map(sample: Sample, method: str = "pca") -> Map:
    coordinates, shares = principal_coordinates(sample.points, sample.space)
    names = axis_names(shares)
    if method == "umap":
        flat = sample.points.numpy() if sample.space.has_geodesics else coordinates
        coordinates, names = _umap(flat), ("UMAP 1", "UMAP 2")
    images, texts = np.split(coordinates[:, :2], 2)
    return Map(images, texts, names)


def axis_names(shares: np.ndarray) -> tuple[str, str]:
    """What the two axes of principal coordinates are called, by their shares of the variance."""
    first, second = (f"component {number} ({100 * shares[number - 1]:.0f}% of variance)" for number in (1, 2))
    return first, second


def principal_coordinates(points: Tensor, space: Space) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates [n, k] along the directions of most variance, k >= 2, and the shares [k] of it."""
    if space.has_geodesics:
        left, sizes, _ = torch.linalg.svd(points - points.mean(0), full_matrices=False)
    else:
        left, sizes = _of_similarities(space.similarity(points, points))
    coordinates = torch.nn.functional.pad(left * sizes, (0, max(0, 2 - len(sizes))))
    largest = coordinates.gather(0, coordinates.abs().argmax(0, keepdim=True))
    shares = torch.nn.functional.pad(sizes**2 / sizes.square().sum().clamp_min(1e-300), (0, max(0, 2 - len(sizes))))
    return (coordinates * torch.where(largest < 0, -1.0, 1.0)).numpy(), shares.numpy()


def _of_similarities(similarity: Tensor) -> tuple[Tensor, Tensor]:
    """Left singular vectors and singular values of points that would have these inner products, once centred."""
    both = (similarity + similarity.T) / 2
    centred = both - both.mean(0) - both.mean(1, keepdim=True) + both.mean()
    values, vectors = torch.linalg.eigh(centred)
    return vectors.flip(1), values.flip(0).clamp_min(0).sqrt()


def _umap(points: np.ndarray) -> np.ndarray:
    import umap

    near = min(NEIGHBOURS, len(points) - 1)
    start = "spectral" if len(points) > near + 2 else "random"
    made = umap.UMAP(n_neighbors=near, n_jobs=1, random_state=UMAP_SEED, init=start)
    return np.asarray(made.fit_transform(points), dtype=float)


def draw_map(found: Map) -> Figure:
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for number in evenly(len(found.images), LINES):
            ends = np.stack([found.images[number], found.texts[number]])
            axes.plot(*ends.T, color=INK, linewidth=0.6, alpha=0.45, zorder=1)
        kinds = (("images", found.images, "o", 3.6), ("captions", found.texts, "D", 3.2))
        for (label, points, marker, size), colour in zip(kinds, SERIES, strict=False):
            axes.plot(*points.T, marker, color=colour, markersize=size, markeredgewidth=0, alpha=0.8, label=label)
        axes.set_xlabel(found.axes[0])
        axes.set_ylabel(found.axes[1])
        axes.set_aspect("equal", adjustable="datalim")
        axes.tick_params(labelbottom=False, labelleft=False)
        axes.legend(loc="best")
    return figure
