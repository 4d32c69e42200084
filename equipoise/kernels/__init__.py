"""Engines that compute a contrastive loss: eager, tiled, Triton kernels, sharded over ranks. Never its formula."""

from __future__ import annotations

from equipoise.kernels.contrast import contrast
from equipoise.kernels.scoring import Scoring

__all__ = ["Scoring", "contrast"]
