"""Who matches whom, and how strongly, answered for any block of rows and columns."""

from __future__ import annotations

from equipoise.targets.one_hot import OneHot
from equipoise.targets.target import HardTarget, Scores, Target, TargetBlock

TARGETS: dict[str, Target | type[Target]] = {
    "one_hot": OneHot,
}

__all__ = ["TARGETS", "HardTarget", "OneHot", "Scores", "Target", "TargetBlock"]
