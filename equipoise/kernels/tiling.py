"""Tiles of a matrix: which rows and columns each has."""

from __future__ import annotations

from collections.abc import Iterator


def blocks(n_rows: int, n_cols: int, tile: int, across: int | None = None) -> Iterator[tuple[range, range]]:
    """Rows and columns of every tile, one band of rows after another; square tiles, unless `across` is given."""
    across = across or tile
    for r in range(0, n_rows, tile):
        for c in range(0, n_cols, across):
            yield range(r, min(r + tile, n_rows)), range(c, min(c + across, n_cols))


def offset(numbers: range, by: int) -> range:
    """Numbers within a shard, as numbers within the whole."""
    return range(numbers.start + by, numbers.stop + by)


def blocks_of_pairs(count: int, tile: int, across: int) -> Iterator[tuple[range, range]]:
    """Rows and columns of tiles that hold every i < j once; they also hold some i >= j, where a band begins."""
    for r in range(0, count, tile):
        for c in range(r, count, across):
            yield range(r, min(r + tile, count)), range(c, min(c + across, count))
