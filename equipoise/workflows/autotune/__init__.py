"""`equipoise autotune`: which micro-batch, precision, compiling and loader processes train a recipe fastest here."""

from __future__ import annotations

from equipoise.workflows.autotune.run import AutotuneRequest, autotune

__all__ = ["AutotuneRequest", "autotune"]
