"""The small frozen dataclasses that cross folders: what flows from data to loss.

    Batch --encoders--> Features --readouts, spaces--> Embeddings --objectives--> Loss

Shapes: N samples, L tokens, P patches, w encoder width, d dimensions of the space, m class tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # so that the command line can answer --help before torch is there
    from torch import Tensor


class UserError(ValueError):
    """A mistake its user can mend: one sentence that says what is wrong, where, and what to do. Never a traceback."""


@dataclass(frozen=True)
class StepInfo:
    """When in a run a batch comes: all that draws and schedules of an objective may depend on, so that they are the
    same in every process and after every interruption."""

    seed: int = 0
    step: int = 1  # from 1
    steps: int = 1  # of the whole run
    epoch_steps: int = 1  # of one epoch

    @property
    def epoch(self) -> int:
        """From 1."""
        return (self.step - 1) // self.epoch_steps + 1

    @property
    def progress(self) -> float:
        """0 in the first step, 1 in the last."""
        return (self.step - 1) / max(1, self.steps - 1)


@dataclass(frozen=True)
class Batch:
    """One batch, ready for the encoders."""

    images: Tensor  # [N, 3, H, W] float, normalised
    tokens: Tensor  # [N, L] token ids, padded on the right
    mask: Tensor  # [N, L] bool, True where a token is real
    index: Tensor  # [N] the samples' numbers in their source
    side: Mapping[str, Tensor] = field(default_factory=dict)  # further per-sample data, by name
    moment: StepInfo = StepInfo()
    common: Mapping[str, Tensor] = field(default_factory=dict)  # of the batch as a whole, by name: never cut

    def __len__(self) -> int:
        return len(self.index)

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The same batch with `change` applied to every tensor of its samples (move it, slice it)."""
        side = {name: change(value) for name, value in self.side.items()}
        images, tokens, mask, index = (change(one) for one in (self.images, self.tokens, self.mask, self.index))
        return Batch(images, tokens, mask, index, side, self.moment, self.common)


@dataclass(frozen=True)
class Features:
    """What an encoder reads out of an image or a text, before any readout."""

    classes: Tensor  # [N, m, w] class-token features
    tokens: Tensor | None = None  # [N, L, w] features of patches or words, class tokens left out; where wanted
    mask: Tensor | None = None  # [N, L] bool, True where a token is real


@dataclass(frozen=True)
class Embeddings:
    """Points of one batch in the space, by role. An objective names the roles it needs; the model fills just those."""

    image: Tensor  # [N, d]
    text: Tensor  # [N, d]; [0, d] where the objective has no text of each sample
    regions: Tensor | None = None
    tags: Tensor | None = None
    image_view2: Tensor | None = None
    text_view2: Tensor | None = None
    momentum_image: Tensor | None = None  # as the moving average of the weights sees it
    momentum_text: Tensor | None = None
    pivots: Tensor | None = None  # [C, d] of all classes: common to the batch, no rows of samples
    further: Mapping[str, Tensor] = field(default_factory=dict)  # what heads make, one row a sample

    @classmethod
    def of(cls, roles: Mapping[str, Tensor]) -> Embeddings:
        """From roles by name; those that have no field of their own are further ones."""
        known = {f.name for f in fields(cls)} - {"further"}
        named = {role: tensor for role, tensor in roles.items() if role in known}
        named.setdefault("text", roles["image"].new_empty(0, roles["image"].shape[-1]))
        return cls(**named, further={role: tensor for role, tensor in roles.items() if role not in known})

    def roles(self) -> dict[str, Tensor]:
        """The roles that are filled, by name."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "further"}
        return {**{name: tensor for name, tensor in own.items() if tensor is not None and len(tensor)}, **self.further}


COMMON = frozenset({"pivots"})  # roles that a batch has once: made whole by every process, never cut or gathered
MOMENTUM = {"momentum_image": "image", "momentum_text": "text"}  # roles of the weights' average, and whose they are


@dataclass(frozen=True)
class Loss:
    """A loss and the named terms it was summed from (each a scalar, before weighting)."""

    total: Tensor
    terms: Mapping[str, Tensor]
    facts: Callable[[], Mapping[str, float]] = dict  # what else is worth logging; found out only where it is
