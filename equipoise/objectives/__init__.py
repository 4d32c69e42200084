"""Objectives, from embeddings to a loss, one formula per file. A new one: its file, one line here, one reference."""

from __future__ import annotations

from equipoise.objectives.albef import ALBEF
from equipoise.objectives.clip import CLIP
from equipoise.objectives.coca import CoCa
from equipoise.objectives.crcl import CRCL
from equipoise.objectives.cyclip import CyCLIP
from equipoise.objectives.declip import DeCLIP
from equipoise.objectives.few_shot import FewShot
from equipoise.objectives.filip import FILIP
from equipoise.objectives.mixup.imix import IMix
from equipoise.objectives.mixup.m3mix import M3Mix
from equipoise.objectives.mixup.unmix import UnMix
from equipoise.objectives.modal import GMC, ModalPairs, Supervised
from equipoise.objectives.objective import Objective
from equipoise.objectives.slip import SLIP
from equipoise.objectives.softclip import SoftCLIP
from equipoise.objectives.tcl import TCL
from equipoise.targets import Smoothed

OBJECTIVES: dict[str, Objective | type[Objective]] = {
    "clip": CLIP,
    # the rows of SoftCLIP's Table 5, each one step further
    "clip_smoothed": CLIP(target=Smoothed()),
    "clip_soft": SoftCLIP(divergence="kl", relation_weight=0.0),
    "clip_soft_relation": SoftCLIP(divergence="kl"),
    "softclip": SoftCLIP,
    "crcl": CRCL,
    "cyclip": CyCLIP,
    "coca": CoCa,
    "slip": SLIP,
    "declip": DeCLIP,
    "filip": FILIP,
    "albef": ALBEF,
    "tcl": TCL,
    # mixups of Oh et al. beside an objective: all of them, and each alone
    "m3mix": M3Mix,
    "m2mix": M3Mix(m2_weight=0.1, v_weight=0.0, l_weight=0.0, vl_weight=0.0),
    "vmix": M3Mix(m2_weight=0.0, v_weight=0.1, l_weight=0.0, vl_weight=0.0),
    "lmix": M3Mix(m2_weight=0.0, v_weight=0.0, l_weight=0.1, vl_weight=0.0),
    "vlmix": M3Mix(m2_weight=0.0, v_weight=0.0, l_weight=0.0, vl_weight=0.1),
    # mixups of pictures, before the encoder
    "imix": IMix,
    "unmix": UnMix,
    # images against the prompts of all classes: with all mixups, without any, with m² alone
    "few_shot": FewShot,
    "few_shot_plain": FewShot(m2_weight=0.0, v_weight=0.0, l_weight=0.0, vl_weight=0.0),
    "few_shot_m2": FewShot(v_weight=0.0, l_weight=0.0, vl_weight=0.0),
    # named modalities: each against the joint code, the same with m²-Mix, each against each other, the label alone
    "gmc": GMC,
    "gmc_m2": GMC(m2_weight=0.2),
    "modal_pairs": ModalPairs,
    "supervised": Supervised,
}

__all__ = [
    "ALBEF", "CLIP", "CRCL", "FILIP", "GMC", "OBJECTIVES", "SLIP", "TCL", "CoCa", "CyCLIP", "DeCLIP", "FewShot", "IMix",
    "M3Mix", "ModalPairs", "Objective", "SoftCLIP", "Supervised", "UnMix",
]  # fmt: skip
