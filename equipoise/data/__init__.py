"""Records to batches: sources of image-text pairs by name, decoding, augmentation, tokens, order."""

from __future__ import annotations

from equipoise.data.scenes import Scenes

SOURCES: dict[str, type[Scenes.Config]] = {
    "scenes": Scenes.Config,
}

__all__ = ["SOURCES", "Scenes"]
