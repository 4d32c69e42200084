"""Rows to index, small and the same every time."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from equipoise.index import ModelNote, Record
from equipoise.index.making import Making, Rows
from equipoise.index.write import create
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere

MODEL = ModelNote("runs/small", "0123456789abcdef")
SPACES = {
    "sphere": Sphere(16),
    "inner": ProductSphere(4, 4),
    "geodesic": ProductSphere(4, 4, "geodesic"),
    "euclidean": Euclidean(16),
}


def points_of(space: Space, count: int, seed: int = 0) -> Tensor:
    """Points around a few centres, as those of a trained model lie."""
    make = torch.Generator().manual_seed(seed)
    centres = torch.randn(20, space.dim, generator=torch.Generator().manual_seed(77))
    noise = torch.randn(count, space.dim, generator=make)
    return space.project(centres[torch.randint(20, (count,), generator=make)] + 0.6 * noise)


def rows_of(points: Tensor, first: int = 0) -> Rows:
    numbers = range(first, first + len(points))
    records = [
        Record(
            f"pic/{n}.jpg",
            (f"caption {n}", "another"),
            f"pic/{n}.jpg",
            {
                "year": 2000 + n % 30,
                "kind": "photo" if n % 3 else "drawing",
                "good": n % 2 == 0,
                "tags": ["a", f"t{n % 5}"],
            }
            | ({"rare": n} if n % 10 == 0 else {}),
        )
        for n in numbers
    ]
    return Rows(points, records, [b"jpeg%d" % n if n % 4 else None for n in numbers])


def small_index(folder: Path, space: Space, count: int = 200, making: Making | None = None) -> Tensor:
    """An index of so many rows, written in two batches; gives its points."""
    points = points_of(space, count)
    half = count // 2
    create(folder, space, MODEL, [rows_of(points[:half]), rows_of(points[half:], half)], making)
    return points


def brute_force(space: Space, queries: Tensor, points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Scores and rows of the k closest, by float64 and a whole sort."""
    scores = space.similarity(queries.double(), points.double())
    order = scores.argsort(dim=1, descending=True)[:, :k]
    return scores.gather(1, order), order
