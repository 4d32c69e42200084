"""`scenes`: a procedural image-text world whose truth is known exactly."""

from __future__ import annotations

from equipoise.data.scenes.corpus import Scenes
from equipoise.data.scenes.reading import matches

__all__ = ["Scenes", "matches"]
