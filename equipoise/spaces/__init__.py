"""Where vectors live and what "close" means. A new space: one file, one line here, one reference."""

from __future__ import annotations

from equipoise.spaces.space import Space
from equipoise.spaces.sphere import Sphere

SPACES: dict[str, type[Space]] = {
    "sphere": Sphere,
}

__all__ = ["SPACES", "Space", "Sphere"]
