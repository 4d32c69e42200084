"""How a contrastive loss is computed: in one block, in tiles. Never what is computed."""

from __future__ import annotations

from equipoise.kernels.contrast import contrast

__all__ = ["contrast"]
