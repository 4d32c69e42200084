"""The modules of Triton kernels, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch


def fused_tiles() -> Any:
    return import_module("equipoise.kernels.triton.infonce_kernels")


def straight_tiles() -> Any:
    return import_module("equipoise.kernels.triton.euclidean_kernels")


def arc_tiles() -> Any:
    return import_module("equipoise.kernels.triton.geodesic_kernels")


def softened_tiles() -> Any:
    return import_module("equipoise.kernels.triton.softclip_kernels")


def softened_terms() -> Any:
    return import_module("equipoise.kernels.triton.softclip_terms")


def sigmoid_tiles() -> Any:
    return import_module("equipoise.kernels.triton.sigmoid_kernels")


def trial(device: torch.device) -> None:
    total = torch.zeros(64, device=device)
    fused_tiles().merge[(1,)](total, total, 1, 64, FRESH=False, DEEP=32, WIDE=64)
