"""Who matches whom, and how strongly, answered for any block of rows and columns."""

from __future__ import annotations

from equipoise.targets.one_hot import OneHot
from equipoise.targets.target import Target, TargetBlock

TARGETS: dict[str, type[Target]] = {
    "one_hot": OneHot,
}

__all__ = ["TARGETS", "OneHot", "Target", "TargetBlock"]
