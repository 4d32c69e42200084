"""Losses over codes of named modalities: each against the joint code, or against each other; functions of tensors."""

from __future__ import annotations

from equipoise.objectives.modalities.gmc import GMCLoss, gmc
from equipoise.objectives.modalities.gmc_mix import drawn_modalities, gmc_mix
from equipoise.objectives.modalities.nt_xent import nt_xent
from equipoise.objectives.modalities.pairs import all_pairs, contrast_pairs
from equipoise.objectives.modalities.supervised import supervised

__all__ = ["GMCLoss", "all_pairs", "contrast_pairs", "drawn_modalities", "gmc", "gmc_mix", "nt_xent", "supervised"]
