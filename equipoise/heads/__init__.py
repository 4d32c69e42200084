"""Heads: parameters and memories that an objective needs beyond points, in training alone.

An objective lists heads by name (`Objective.heads`), the model builds them and calls those whose roles are needed.
They are saved with the model, so that training can go on; `encode_image` and `encode_text` never look at them.
One is of use behind training too: `CaptionHead` writes captions.
"""

from __future__ import annotations

from equipoise.heads.caption import CaptionHead
from equipoise.heads.fusion import FusionHead
from equipoise.heads.head import Head, HeadConfig, Sizes, TowerOutputs
from equipoise.heads.local_points import LocalPoints
from equipoise.heads.logit_scale import LogitScaleHead
from equipoise.heads.mlm import MLMHead
from equipoise.heads.momentum_queue import MomentumQueue
from equipoise.heads.simclr import SimCLRHead
from equipoise.heads.simsiam import SimSiamHead
from equipoise.heads.text_queue import TextQueue

__all__ = [
    "CaptionHead",
    "FusionHead",
    "Head",
    "HeadConfig",
    "LocalPoints",
    "LogitScaleHead",
    "MLMHead",
    "MomentumQueue",
    "SimCLRHead",
    "SimSiamHead",
    "Sizes",
    "TextQueue",
    "TowerOutputs",
]
