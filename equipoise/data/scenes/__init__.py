"""`scenes`: a procedural image-text world whose truth is known exactly."""

from __future__ import annotations

from equipoise.data.scenes.corpus import Scenes
from equipoise.data.scenes.language.parser import matches

__all__ = ["Scenes", "matches"]
