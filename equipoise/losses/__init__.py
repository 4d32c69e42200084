"""Losses for anyone's training loop: `nn.Module`s with open_clip's signature, over the objectives of this package.

    loss = CLIPLoss()(image_features, text_features, logit_scale)        # logit_scale is exp(t), as open_clip has it

A new one: its file, one line here; the formula is an objective's, never here.
"""

from __future__ import annotations

from equipoise.losses.clip import CLIPLoss, SigLIPLoss
from equipoise.losses.code_book import CodeBook
from equipoise.losses.cyclip import CyCLIPLoss
from equipoise.losses.declip import DeCLIPLoss
from equipoise.losses.mixup import M2MixLoss, M3MixLoss
from equipoise.losses.pair_loss import PairLoss
from equipoise.losses.softclip import SoftCLIPLoss

__all__ = [
    "CLIPLoss",
    "CodeBook",
    "CyCLIPLoss",
    "DeCLIPLoss",
    "M2MixLoss",
    "M3MixLoss",
    "PairLoss",
    "SigLIPLoss",
    "SoftCLIPLoss",
]
