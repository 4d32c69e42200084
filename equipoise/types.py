"""The small frozen dataclasses that cross folders, from data to loss.

    Batch --encoders--> Features --readouts, spaces--> Embeddings --objectives--> Loss

Shapes: N samples, L tokens, P patches, w encoder width, d dimensions of the space, m class tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # so that the command line can answer --help before torch is there
    from torch import Tensor


class UserError(ValueError):
    """A mistake that the user can mend: one sentence that says what is wrong, where, and what to do. Shown without a
    traceback."""

    status: ClassVar[int] = 2  # the exit status of a command that it ends


class Notice(UserWarning):
    """What was decided for the user, or found out; told as it is, for nothing is wrong."""


@dataclass(frozen=True)
class StepInfo:
    """The step of a run at which a batch comes. Random draws and schedules of an objective may depend on nothing else,
    so that they are the same in every process and after every interruption."""

    seed: int = 0
    step: int = 1  # from 1
    steps: int = 1  # in the whole run
    epoch_steps: int = 1  # per epoch

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 1."""
        return (self.step - 1) // self.epoch_steps + 1

    @property
    def progress(self) -> float:
        """Fraction of the run: 0 in the first step, 1 in the last."""
        return (self.step - 1) / max(1, self.steps - 1)


@dataclass(frozen=True)
class Lengths:
    """How many tokens of each sample are real. Read off a mask while it is still on the CPU: to read it off a GPU is to
    wait for all that was asked of that GPU before."""

    each: Tensor  # [N] on the CPU
    total: int  # of all samples
    longest: int
    shortest: int  # up to 2: whether a sample is empty, or has but one token, is all that is asked

    @classmethod
    def of(cls, mask: Tensor) -> Lengths | None:
        """Lengths by a mask [N, L]; None if it is on another device, or padding is not on the right alone."""
        if mask.device.type != "cpu" or bool((mask[:, 1:] > mask[:, :-1]).any()):
            return None
        return cls._of(mask.sum(1))

    @classmethod
    def _of(cls, each: Tensor) -> Lengths:
        shortest, longest = (int(each.min()), int(each.max())) if len(each) else (0, 0)
        return cls(each, int(each.sum()), longest, min(shortest, 2))

    def part(self, rows: slice) -> Lengths:
        return self._of(self.each[rows])


@dataclass(frozen=True)
class Batch:
    """One batch, ready for the encoders."""

    images: Tensor  # [N, 3, H, W] float, normalised
    tokens: Tensor  # [N, L] token ids, padded on the right
    mask: Tensor  # [N, L] bool, True where a token is real
    index: Tensor  # [N] indices of the samples in their source
    side: Mapping[str, Tensor] = field(default_factory=dict)  # further per-sample data, by name
    moment: StepInfo = StepInfo()
    common: Mapping[str, Tensor] = field(default_factory=dict)  # data of the batch as a whole, by name: never split
    lengths: Mapping[str, Lengths] = field(default_factory=dict)  # of masks, `mask` or by name in `side`, where known

    def __len__(self) -> int:
        return len(self.index)

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Copy with `change` applied to every per-sample tensor; lengths are left out, for it may change masks too."""
        side = {name: change(value) for name, value in self.side.items()}
        images, tokens, mask, index = (change(tensor) for tensor in (self.images, self.tokens, self.mask, self.index))
        return Batch(images, tokens, mask, index, side, self.moment, self.common)

    def part(self, rows: slice) -> Batch:
        """Some of the samples, with all that is common to the batch."""
        lengths = {name: known.part(rows) for name, known in self.lengths.items()}
        return replace(self.map(lambda tensor: tensor[rows]), lengths=lengths)


@dataclass(frozen=True)
class Features:
    """Encoder output for images or texts, before any readout."""

    classes: Tensor  # [N, m, w] class-token features
    tokens: Tensor | None = None  # [N, L, w] features of patches or words; may be left out where nothing reads them
    mask: Tensor | None = None  # [N, L] bool, True where a token is real
    at_least: int = 0  # real tokens that every sample is known to have, without a look at the mask


@dataclass(frozen=True)
class Embeddings:
    """Points of one batch in the space, by role. An objective names the roles it needs; the model fills just those."""

    image: Tensor  # [N, d]; [0, d] of modalities with other names, which are in `further`
    text: Tensor  # [N, d]; [0, d] where the objective needs no text per sample
    regions: Tensor | None = None
    tags: Tensor | None = None
    image_view2: Tensor | None = None
    text_view2: Tensor | None = None
    momentum_image: Tensor | None = None  # by the EMA of the weights
    momentum_text: Tensor | None = None
    pivots: Tensor | None = None  # [C, d] one row per class, not per sample
    further: Mapping[str, Tensor] = field(default_factory=dict)  # of heads: one row per sample, but for `RECALLED`

    @classmethod
    def of(cls, roles: Mapping[str, Tensor]) -> Embeddings:
        """Make embeddings from roles by name; roles without a field go into `further`."""
        named = {role: tensor for role, tensor in roles.items() if role in NAMED}
        like = roles["image"] if "image" in roles else next(iter(roles.values()))  # of modalities with other names
        for role in ("image", "text"):
            named.setdefault(role, like.new_empty(0, like.shape[-1]))
        return cls(**named, further={role: tensor for role, tensor in roles.items() if role not in NAMED})

    def roles(self) -> dict[str, Tensor]:
        """Filled roles by name."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "further"}
        return {**{role: tensor for role, tensor in own.items() if tensor is not None and len(tensor)}, **self.further}


NAMED = frozenset(f.name for f in fields(Embeddings)) - {"further"}  # roles that are fields
COMMON = frozenset({"pivots"})  # roles that every process computes for the whole batch: never split or gathered
RECALLED = frozenset(
    {"image_queue", "text_queue"}
)  # roles of former batches, [K, d]: no process makes them of this one
# roles of a model of modalities, beside the names of these: all of them together, and what is told of a sample's label
JOINT, SCORES = "joint", "scores"
EVERY_MODALITY = "modalities"  # among needs: a role for each modality, by its name
MOMENTUM = "momentum_"  # begins the names of roles by the EMA of the weights; the rest is the role that it makes


@dataclass(frozen=True)
class Loss:
    """A loss and the named terms it was summed from (each a scalar, before weighting)."""

    total: Tensor
    terms: Mapping[str, Tensor]
    facts: Callable[[], Mapping[str, float]] = dict  # further numbers for the log, computed only when it is written
    weights: Mapping[str, float] = field(default_factory=dict)  # of terms in the total; 1 where none is named

    def weighted(self) -> dict[str, Tensor]:
        """Terms times their weights, whose sum is the total."""
        return {name: self.weights.get(name, 1.0) * term for name, term in self.terms.items()}
