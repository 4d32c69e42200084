"""The interface of encoders over sequences: what a modality was measured to be, to one code per sample.

    codes [N, d] = encoder(values [N, L, w], mask [N, L])        mask is True where a step is real

One vector per sample [N, w] is a sequence of one step, whose mask [N] or [N, 1] says whether it is there. A step that
is not real is not there: whatever its values hold (NaN, too), they change neither code nor gradient, and the others
keep their places. A sample without any real step has a code all the same, the same one always.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.encoder import Encoder
from equipoise.encoders.recomputation import Recompute
from equipoise.types import UserError


@dataclass(frozen=True)
class SequenceShape:
    """What a modality's arrays look like."""

    width: int  # numbers per step
    length: int = 1  # steps at most; 1 for one vector per sample


class SequenceConfig(Protocol):
    """Settings of an encoder over sequences."""

    def build(self, shape: SequenceShape, dim: int) -> SequenceEncoder: ...


class SequenceEncoder(Encoder):
    """`width` is that of the codes, `shape` that of the input."""

    shape: SequenceShape

    def __init__(self, shape: SequenceShape, dim: int):
        super().__init__()
        self.shape, self.width = shape, dim

    @abstractmethod
    def encode(self, values: Tensor, mask: Tensor) -> Tensor:
        """Codes [N, d] of values [N, L, w], 0 where they are not real, and their mask [N, L]; L >= 1."""

    def forward(self, values: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.encode(*real_steps(values, mask, self.shape, parameter_dtype(self)))

    def recompute_activations(self, wanted: Recompute) -> None:
        """Do nothing: there is little to recompute."""


def real_steps(
    values: Tensor, mask: Tensor | None, shape: SequenceShape, dtype: torch.dtype, what: str = ""
) -> tuple[Tensor, Tensor]:
    """Values [N, L, w] with zeros for all that is not real, and the mask [N, L]; raises UserError for other shapes.
    `what` is the modality's name, for its sentence."""
    of = f" of {what}" if what else ""
    if values.ndim == 2:
        values = values[:, None]
    if values.ndim != 3 or values.shape[2] != shape.width or not values.is_floating_point():
        raise UserError(
            f"values{of} must be floats [N, L, {shape.width}] or [N, {shape.width}], not {values.dtype} "
            f"{list(values.shape)}"
        )
    if values.shape[1] > shape.length:
        raise UserError(
            f"sequences{of} have {values.shape[1]} steps, but the encoder was built for {shape.length} at most; cut "
            "them, or build it for longer ones"
        )
    if mask is None:
        mask = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
    mask = mask[:, None] if mask.ndim == 1 else mask
    if mask.shape != values.shape[:2] or mask.dtype != torch.bool:
        raise UserError(
            f"the mask{of} must be bool {list(values.shape[:2])}, True where a step is real, not {mask.dtype} "
            f"{list(mask.shape)}"
        )
    if not values.shape[1]:  # a sequence of nothing is one of a single step that is not real
        values, mask = F.pad(values, (0, 0, 0, 1)), F.pad(mask, (0, 1))
    return values.to(dtype).masked_fill(~mask[..., None], 0.0), mask


def parameter_dtype(module: nn.Module) -> torch.dtype:
    return next(module.parameters()).dtype


def mean_of_steps(steps: Tensor, mask: Tensor) -> Tensor:
    """Mean [N, w] over the real steps of [N, L, w]; zeros where there is none."""
    real = mask[..., None].to(steps.dtype)
    return (steps * real).sum(1) / real.sum(1).clamp(min=1)


def real_length(mask: Tensor) -> Tensor:
    """Steps [N] up to the last real one; 0 where there is none."""
    return (torch.arange(1, mask.shape[1] + 1, device=mask.device) * mask).amax(1)


def last_step(steps: Tensor, mask: Tensor) -> Tensor:
    """The last real step [N, w] of [N, L, w]; zeros where there is none."""
    length = real_length(mask)
    found = steps.gather(1, (length - 1).clamp(min=0)[:, None, None].expand(-1, -1, steps.shape[2]))[:, 0]
    return found.masked_fill((length == 0)[:, None], 0.0)
