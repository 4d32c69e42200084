"""Which pairs match, and how strongly, for any block of rows and columns."""

from __future__ import annotations

from equipoise.targets.class_matches import ClassMatches
from equipoise.targets.duplicates import HARD_TARGETS, Duplicates, SharedKeys
from equipoise.targets.guide import GUIDES, Guide
from equipoise.targets.label_smoothing import Smoothed
from equipoise.targets.mirrored import Mirrored
from equipoise.targets.one_hot import OneHot
from equipoise.targets.softened import Softened
from equipoise.targets.target import HardTarget, Scores, Target, TargetBlock, log_zero

TARGETS: dict[str, Target | type[Target]] = {
    "one_hot": OneHot,
    "duplicates": Duplicates,
    "labels": Duplicates(same=("label",)),
    "smoothed": Smoothed,
    "softened": Softened,
}

__all__ = [
    "GUIDES",
    "HARD_TARGETS",
    "TARGETS",
    "ClassMatches",
    "Duplicates",
    "Guide",
    "HardTarget",
    "Mirrored",
    "OneHot",
    "Scores",
    "SharedKeys",
    "Smoothed",
    "Softened",
    "Target",
    "TargetBlock",
    "log_zero",
]
