"""How a contrastive loss is computed: in one block, in tiles, in Triton kernels. Never what is computed."""

from __future__ import annotations

from equipoise.kernels.contrast import contrast
from equipoise.kernels.scoring import Scoring

__all__ = ["Scoring", "contrast"]
