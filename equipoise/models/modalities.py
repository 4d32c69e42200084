"""The recipe table `[modalities]`: what a model of named modalities reads, and by which encoders.

[modalities]
name = "named"                       # without it the model is one of images and texts
outputs = 2                          # classes to tell apart; 1: a number, 0: nothing

[modalities.inputs.audio]
width = 74
length = 50
encoder.name = "gru"

[modalities.joint]
name = "concat"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from equipoise.data.modalities.samples import require_names
from equipoise.encoders.sequences import JOINT_ENCODERS, SEQUENCE_ENCODERS, JointConfig, SequenceConfig, SequenceShape
from equipoise.settings.bounds import bounded
from equipoise.settings.choice import choice, choices
from equipoise.types import UserError


@dataclass(frozen=True)
class ModalInput:
    """One modality: the shape of its arrays, and its encoder."""

    width: int = bounded(64, 1, 2**20)  # of the arrays
    length: int = bounded(1, 1, 2**20)  # steps at most; 1: a vector
    encoder: SequenceConfig = choice(SEQUENCE_ENCODERS, "mlp")  # what reads them

    @property
    def shape(self) -> SequenceShape:
        return SequenceShape(self.width, self.length)


class ModalitiesConfig(Protocol):
    @property
    def names(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class NoModalities:
    """The model is one of images and texts."""

    names: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class NamedModalities:
    inputs: Mapping[str, ModalInput] = choices({"input": ModalInput}, "input")  # the modalities, by name
    joint: JointConfig = choice(JOINT_ENCODERS, "concat")  # what reads all of them together
    code: int = bounded(60, 1, 2**16)  # width of what the encoders give, before the shared map to the space
    outputs: int = bounded(0, 0, 100_000)  # scores of the label: as many as classes, 1 for a number, 0 without a label
    dropout: float = bounded(0.0, 0.0, 0.999)  # in the head that tells the label
    standardise: bool = True  # columns by their mean and deviation in the training data

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise UserError(
                f"modalities.inputs names {len(self.inputs)}; give at least two, each a table [modalities.inputs.NAME]"
            )
        require_names(self.inputs, "modalities.inputs")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.inputs)


MODALITIES: dict[str, ModalitiesConfig | type[ModalitiesConfig]] = {"none": NoModalities, "named": NamedModalities}
