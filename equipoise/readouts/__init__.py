"""How token features become a vector."""

from __future__ import annotations

from equipoise.readouts.class_token import ClassToken

READOUTS: dict[str, type[ClassToken.Config]] = {
    "class_token": ClassToken.Config,
}

__all__ = ["READOUTS", "ClassToken"]
