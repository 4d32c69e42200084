"""Embeddings and targets to a loss: one published formula a file. A new one: the file, one line here, one reference."""

from __future__ import annotations

from equipoise.objectives.clip import CLIP
from equipoise.objectives.objective import Objective

OBJECTIVES: dict[str, type[Objective]] = {
    "clip": CLIP,
}

__all__ = ["CLIP", "OBJECTIVES", "Objective"]
