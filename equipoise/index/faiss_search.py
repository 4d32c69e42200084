"""Candidates by faiss, for segments of many rows: what is likely close, to be compared exactly afterwards.

    ivf    points in 4·√N lists around centres of k-means, each as codes of 4 bits; `effort` lists are searched
           Jégou et al. 2011, "Product Quantization for Nearest Neighbor Search"; André et al. 2017 (4-bit codes in
           registers)
    hnsw   a graph of near neighbours, of which `effort` nodes are kept while it is walked
           Malkov & Yashunin 2018, "Efficient and robust approximate nearest neighbor search using HNSW graphs"

Candidates are ordered by inner product, or by straight distance in Euclidean space. On a product of spheres all points
have the norm √m, so that both give one order; the geodesic distance orders them a little differently, which is why
candidates are several times as many as the rows asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from equipoise.index.points import AGAIN, Points
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere
from equipoise.types import UserError

FEWEST = 5000  # rows, below which searching all of them is as quick
EFFORTS = {"ivf": (4, 8, 16, 32, 64, 128, 256), "hnsw": (64, 128, 256, 512)}
USUAL = {"ivf": 32, "hnsw": 128}
CANDIDATES = {"ivf": (20, 200), "hnsw": (5, 50)}  # so many for each row asked for, and never fewer
LINKS, BUILD_EFFORT = 16, 80  # of a node of the graph; nodes kept while it is made
PER_LIST = 50  # points that k-means sees for each list
SEED, ROUNDS = 0, 10  # of k-means
CODES = {"float32": "Flat", "float16": "SQfp16", "int8": "SQ8"}  # how a graph keeps its points


def import_faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise UserError(
            "the kinds ivf and hnsw need faiss; pip install 'equipoise[index]', or choose --kind exact"
        ) from error
    return faiss


def require_kind(kind: str, space: Space) -> None:
    """Raise UserError for a space of which faiss knows no candidates."""
    if kind == "exact":
        return
    import_faiss()
    if not isinstance(space, Sphere | ProductSphere | Euclidean):
        raise UserError(f"--kind {kind} has no candidates for the space {type(space).__name__}; choose --kind exact")


def build(kind: str, points: Points, dtype: str, space: Space, path: Path) -> None:
    """Write what faiss makes of points; nothing where there are few."""
    if kind == "exact" or len(points) < FEWEST:
        return
    faiss = import_faiss()
    metric = faiss.METRIC_L2 if isinstance(space, Euclidean) else faiss.METRIC_INNER_PRODUCT
    lists = int(min(4 * len(points) ** 0.5, len(points) / PER_LIST))
    if kind == "ivf":
        index, seen = faiss.index_factory(space.dim, f"IVF{lists},{_codes(space.dim)}", metric), lists * PER_LIST
        index.cp.seed, index.cp.niter = SEED, ROUNDS
    else:
        index, seen = faiss.index_factory(space.dim, f"HNSW{LINKS},{CODES[dtype]}", metric), 50_000
        index.hnsw.efConstruction = BUILD_EFFORT
    chosen = np.random.default_rng(SEED).permutation(len(points))[:seen]
    index.train(points.take(np.sort(chosen)).numpy())
    for _, tile in points.tiles():
        index.add(tile.numpy())
    faiss.write_index(index, str(path))


def _codes(width: int) -> str:
    """4-bit codes, at least 64 where there are as many numbers, of at most 8 numbers each."""
    most = min(8, max(1, width // 64))
    each = next(each for each in range(most, 0, -1) if width % each == 0)
    return f"PQ{width // each}x4fs"


class FaissSearch:
    """What faiss made of the points of a segment."""

    def __init__(self, path: Path, kind: str, count: int, width: int):
        self.faiss, self.kind, self.count = import_faiss(), kind, count
        try:
            self.index = self.faiss.read_index(str(path))
        except (RuntimeError, MemoryError) as error:
            raise UserError(f"cannot read {path}: {str(error).splitlines()[-1]}; {AGAIN}") from error
        if self.index.ntotal != count or self.index.d != width:
            raise UserError(
                f"{path} has {self.index.ntotal:,} points of {self.index.d} numbers, not {count:,}; {AGAIN}"
            )

    def candidates(self, queries: Tensor, k: int, effort: int, passing: np.ndarray, share: float) -> np.ndarray:
        """Places of rows that are likely close to each query, of those that pass (a `share` of all); -1 where none."""
        selector = None
        if share < 1:
            bits = np.packbits(passing, bitorder="little")
            selector = self.faiss.IDSelectorBitmap(bits)  # bits stay alive until the search has ended
        each, least = CANDIDATES[self.kind]
        count = min(self.count, max(least, each * k))
        effort = int(effort / max(share, 0.01))  # of few that pass, fewer are met on the way
        if self.kind == "ivf":
            words = self.faiss.SearchParametersIVF(nprobe=min(effort, self.index.nlist), sel=selector)
        else:
            words = self.faiss.SearchParametersHNSW(efSearch=max(effort, count), sel=selector)
        return self.index.search(queries.numpy(), count, params=words)[1]
