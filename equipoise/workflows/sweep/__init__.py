"""`equipoise sweep`: a recipe trained with every combination of some settings; the best is chosen on validation."""

from __future__ import annotations

from equipoise.workflows.sweep.run import SweepRequest, sweep

__all__ = ["SweepRequest", "sweep"]
