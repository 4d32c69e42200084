"""Joint encoder of several modalities at once: each averaged over its real steps, all side by side, through an MLP.

    code = MLP([x̄_1, ..., x̄_k])             x̄_m [N, w_m] mean over the real steps of modality m, 0 where there are none

Early fusion, the plainest joint encoder; `mult` lets the modalities look at each other's steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from equipoise.encoders.sequences.mlp import MLP
from equipoise.encoders.sequences.sequence import SequenceShape, mean_of_steps, parameter_dtype, real_steps
from equipoise.settings.bounds import bounded

Inputs = Mapping[str, tuple[Tensor, Tensor | None]]  # values [N, L, w] or [N, w], and which are real


class JointConfig(Protocol):
    """Settings of a joint encoder, which reads inputs by name into codes [N, d]."""

    def build(self, shapes: Mapping[str, SequenceShape], dim: int) -> nn.Module: ...


class Concat(nn.Module):
    @dataclass(frozen=True)
    class Config:
        hidden: int = bounded(64, 1, 2**16)
        layers: int = bounded(2, 1, 100)
        dropout: float = bounded(0.0, 0.0, 0.999)

        def build(self, shapes: Mapping[str, SequenceShape], dim: int) -> Concat:
            return Concat(self, shapes, dim)

    def __init__(self, config: Config, shapes: Mapping[str, SequenceShape], dim: int):
        super().__init__()
        self.shapes = dict(shapes)
        whole = SequenceShape(sum(shape.width for shape in shapes.values()))
        self.mlp = MLP.Config(config.hidden, config.layers, dropout=config.dropout).build(whole, dim)

    def forward(self, inputs: Inputs) -> Tensor:
        dtype = parameter_dtype(self)
        steps = (real_steps(*inputs[name], shape, dtype) for name, shape in self.shapes.items())
        codes: Tensor = self.mlp(torch.cat([mean_of_steps(*one) for one in steps], dim=1))
        return codes
