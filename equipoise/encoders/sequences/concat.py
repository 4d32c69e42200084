"""All modalities side by side through one perceptron: the plainest joint encoder, for one vector per sample.

Poklukar et al. 2022 (GMC), §4: the joint encoder of their simpler experiments reads the modalities' features together.

    x = [ mean of the real steps of v_m, 1 if there is one, for every m ];   x ← relu(W x + b), ...;   code = W x + b

v_m [N, L_m, w_m]. A modality that is not there gives zeros, and the number beside them says that it is not there.
`mult.py` reads the order of steps and lets modalities look at each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.encoders.sequences.joint import JointEncoder, Steps
from equipoise.encoders.sequences.mlp import MLP
from equipoise.encoders.sequences.sequence import SequenceShape, mean_of_steps
from equipoise.encoders.transformer import activation
from equipoise.settings.bounds import bounded


class Concat(JointEncoder):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("poklukar2022gmc",)

        hidden: int = bounded(64, 1, 2**16)  # width of the layers
        layers: int = bounded(2, 1, 100)  # linear maps
        activation: str = "relu"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu
        dropout: float = bounded(0.0, 0.0, 0.999)  # behind each activation

        def __post_init__(self) -> None:
            activation(self.activation)

        def build(self, shapes: Mapping[str, SequenceShape], dim: int) -> Concat:
            return Concat(self, shapes, dim)

    def __init__(self, config: Config, shapes: Mapping[str, SequenceShape], dim: int):
        super().__init__(shapes, dim)
        width = sum(shape.width + 1 for shape in self.shapes.values())
        inner = MLP.Config(config.hidden, config.layers, config.activation, config.dropout)
        self.mlp = inner.build(SequenceShape(width), dim)

    def encode(self, steps: Steps) -> Tensor:
        parts = []
        for values, mask in steps.values():
            parts += [mean_of_steps(values, mask), mask.any(1, keepdim=True).to(values.dtype)]
        codes: Tensor = self.mlp(torch.cat(parts, dim=1))
        return codes
