"""The interface of joint encoders: what all modalities were measured to be, to one code per sample.

    codes [N, d] = encoder({name: (values [N, L_m, w_m], mask [N, L_m] or None)})

A modality that is not given is one without any real step: not there, for any sample. So one encoder reads every subset
of its modalities, and samples of which some lack one. Zeroed inputs, which MulT's papers give it instead, are values of
zero with a mask of True.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from equipoise.encoders.encoder import Encoder
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.sequences.sequence import SequenceShape, parameter_dtype, real_steps
from equipoise.types import UserError

Given = Mapping[str, tuple[Tensor, Tensor | None]]
Steps = dict[str, tuple[Tensor, Tensor]]  # values [N, L, w], 0 where they are not real, and mask [N, L], per modality


class JointConfig(Protocol):
    """Settings of a joint encoder."""

    def build(self, shapes: Mapping[str, SequenceShape], dim: int) -> JointEncoder: ...


class JointEncoder(Encoder):
    """`width` is that of the codes, `shapes` those of the inputs, in the order of the modalities."""

    def __init__(self, shapes: Mapping[str, SequenceShape], dim: int):
        super().__init__()
        self.shapes, self.width = check_modalities(shapes), dim

    @abstractmethod
    def encode(self, steps: Steps) -> Tensor:
        """Codes [N, d] of all modalities, in their order; those of which no step is real among them."""

    def forward(self, given: Given) -> Tensor:
        unknown = [name for name in given if name not in self.shapes]
        if unknown or not given:
            told = f"there is no modality {unknown[0]!r}" if unknown else "no modality is given"
            raise UserError(f"{told}; the encoder reads {', '.join(self.shapes)}")
        dtype = parameter_dtype(self)
        steps = {name: real_steps(*pair, self.shapes[name], dtype, what=name) for name, pair in given.items()}
        sizes = {name: len(values) for name, (values, _) in steps.items()}
        if len(set(sizes.values())) > 1:
            raise UserError(f"modalities have different numbers of samples: {sizes}; give the same samples of each")
        like = next(iter(steps.values()))[0]
        return self.encode({name: steps.get(name) or _absent(shape, like) for name, shape in self.shapes.items()})

    def recompute_activations(self, wanted: Recompute) -> None:
        """Do nothing: there is little to recompute."""


def check_modalities(shapes: Mapping[str, SequenceShape]) -> dict[str, SequenceShape]:
    """The shapes, in their order; raises UserError for fewer than two modalities and for impossible names."""
    if len(shapes) < 2:
        raise UserError(f"a joint encoder reads two modalities at least, not {list(shapes)}; give more")
    for name in shapes:
        if not re.fullmatch(r"\w[\w-]*", name):
            raise UserError(f"a modality may not be called {name!r}; choose letters, digits, - and _")
    return dict(shapes)


def _absent(shape: SequenceShape, like: Tensor) -> tuple[Tensor, Tensor]:
    return like.new_zeros(len(like), 1, shape.width), torch.zeros(len(like), 1, dtype=torch.bool, device=like.device)
