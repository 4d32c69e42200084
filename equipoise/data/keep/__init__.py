"""Training on the captions that look right: what `equipoise clean` decides, and the source that goes by it."""

from __future__ import annotations

from equipoise.data.keep.settings import Clean, Keep

__all__ = ["Clean", "Keep"]
