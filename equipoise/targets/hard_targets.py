"""The targets that only know matches and the rest, by name: what soft targets are softened from."""

from __future__ import annotations

from equipoise.targets.duplicates import Duplicates
from equipoise.targets.one_hot import OneHot
from equipoise.targets.target import HardTarget

HARD_TARGETS: dict[str, HardTarget | type[HardTarget]] = {
    "one_hot": OneHot,
    "duplicates": Duplicates,
    "labels": Duplicates(same=("label",)),
}
