"""The map from token features to vectors of a code book's space, one per tower.

Chen et al. 2023 (FDT). The paper has one layer, Linear and GELU (`one_layer`); the authors' code has LayerNorm, Linear,
GELU, LayerNorm, Linear (`two_layers`). `code_book` and its control without codes, `pooled`, share it.
"""

from __future__ import annotations

from torch import nn

PROJECTIONS = ("two_layers", "one_layer")


def query_map(width: int, dim: int, kind: str) -> nn.Sequential:
    """[..., w] to [..., d]."""
    first = nn.Linear(width, dim)
    second = (nn.LayerNorm(dim), nn.Linear(dim, dim))  # drawn in either case, so that a seed gives the same codes
    if kind == "two_layers":
        return nn.Sequential(nn.LayerNorm(width), first, nn.GELU(), *second)
    return nn.Sequential(first, nn.GELU())
