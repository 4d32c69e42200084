"""Embeddings and targets to a loss: one published formula a file. A new one: the file, one line here, one reference."""

from __future__ import annotations

from equipoise.objectives.clip import CLIP
from equipoise.objectives.declip import DeCLIP
from equipoise.objectives.filip import FILIP
from equipoise.objectives.objective import Objective
from equipoise.objectives.slip import SLIP
from equipoise.objectives.softclip import SoftCLIP
from equipoise.targets import Smoothed

OBJECTIVES: dict[str, Objective | type[Objective]] = {
    "clip": CLIP,
    # the rows of SoftCLIP's Table 5, each one step further
    "clip_smoothed": CLIP(target=Smoothed()),
    "clip_soft": SoftCLIP(divergence="kl", relation_weight=0.0),
    "clip_soft_relation": SoftCLIP(divergence="kl"),
    "softclip": SoftCLIP,
    "slip": SLIP,
    "declip": DeCLIP,
    "filip": FILIP,
}

__all__ = ["CLIP", "FILIP", "OBJECTIVES", "SLIP", "DeCLIP", "Objective", "SoftCLIP"]
