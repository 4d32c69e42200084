"""A small run for the tests of configuration: nested dataclasses, choices, presets, an owner of a `Config`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from equipoise.settings.choice import choice
from equipoise.types import UserError


@dataclass(frozen=True)
class OneHot:
    pass


@dataclass(frozen=True)
class Smoothed:
    amount: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.amount < 1:
            raise ValueError(f"amount must be in [0, 1), not {self.amount}")


@dataclass(frozen=True)
class Guided:
    size: int  # no default
    amount: float = 0.5


TARGETS = {"one_hot": OneHot, "smoothed": Smoothed, "guided": Guided}


class Encoder:
    @dataclass(frozen=True)
    class Config:
        kinds: ClassVar[tuple[str, ...]] = ("not", "a", "key")

        width: int = 64
        ratio: float | None = 4.0
        heads: tuple[int, ...] = (2, 2)


ENCODERS: dict[str, Any] = {
    "plain": Encoder,
    "small": Encoder.Config(width=32, ratio=None),
    "large": Encoder.Config(width=512),
}


@dataclass(frozen=True)
class Objective:
    weight: float = 1.0
    target: object = choice(TARGETS, "one_hot")


PRESETS: dict[str, Any] = {"clip": Objective, "soft": Objective(2.0, Smoothed(0.3)), "own": Objective(3.0, OneHot())}


@dataclass(frozen=True)
class Schedule:
    kind: Literal["cosine", "flat"] = "cosine"
    warmup: int = 10


@dataclass(frozen=True)
class Training:
    steps: int = 100
    learning_rate: float = 1e-3
    compiled: bool = False
    note: str | None = None
    schedule: Schedule = Schedule()
    later: Schedule | None = None
    first: Schedule = field(default_factory=lambda: Schedule("flat", 0))

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UserError("steps must be at least 1")
        if self.learning_rate == 13.0:
            raise ValueError("unlucky")


@dataclass(frozen=True)
class Toy:
    name: str = "toy"
    seed: int = 0
    training: Training = Training()
    encoder: Encoder.Config = choice(ENCODERS, "plain")
    objective: Objective = choice(PRESETS, "clip")
    unwritable: int = field(default=3, init=False)
