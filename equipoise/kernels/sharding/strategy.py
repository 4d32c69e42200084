"""Which way ranks share the work of a loss that can be divided among them, where nobody says.

everything   every rank gathers all points and computes the whole loss: few messages, `world` times the work
gathered     every rank gathers all columns and compares its own rows with them (`all_gather.py`)
ring         the columns of the others pass by, two parts at a time (`ring.py`)
"""

from __future__ import annotations

EVERYTHING, DIVIDED = "everything", ("gathered", "ring")
SMALL_BATCH = 1024  # pairs, below which the whole loss costs less than the messages of a divided one
GATHERED_BYTES = 2**28  # of columns that every rank would hold beside its own


def strategy_for(pairs: int, dim: int, columns: int) -> str:
    """For a batch of so many pairs in all, with so many kinds of columns: texts, and guides that travel with them."""
    if pairs < SMALL_BATCH:
        return EVERYTHING
    return "gathered" if pairs * dim * 4 * columns <= GATHERED_BYTES else "ring"
