"""Tile and chunk sizes of the fused contrasts, chosen by `benchmarks/contrast_gpu.py --tune`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple


class Tile(NamedTuple):
    """The part of one program: rows × columns of logits, `deep` of the d dimensions at a time."""

    rows: int = 128
    cols: int = 128
    deep: int = 64
    warps: int = 4
    stages: int = 3
    group: int = 32  # tiles of rows that share a tile of columns in the cache


@dataclass(frozen=True)
class Plan:
    """How the work is cut. products: where logits are computed, `tiles` (in the kernel) or `library` (chunks of float32
    products by the vendor's library, then a pass over each). Gradients are stored per chunk before they are
    multiplied: as many rows as keep the library's matrix product busy."""

    products: str = "tiles"
    statistics: Tile = Tile()
    gradient: Tile = Tile()
    chunk_rows: int = 8192
    chunk_cols: int = 8192
    partial_sums: int = 1 << 23  # numbers kept of the tiles' sums, before they are merged
    sweep_cols: int = 1 << 16  # columns between two merges

    def split(self) -> Plan:
        """The plan for float32 points: gradients are stored as two numbers, so chunks are half as large."""
        return replace(self, chunk_rows=max(1, self.chunk_rows // 2))

    def sweep(self, n_cols: int) -> tuple[int, int]:
        """Rows and columns of a chunk of the first sweep, which stores nothing but partial sums."""
        if self.products == "library":
            return self.chunk_rows, self.chunk_cols
        across = min(n_cols, self.sweep_cols)
        return max(1, self.partial_sums // across) * self.statistics.rows, across


PLAN = Plan()
