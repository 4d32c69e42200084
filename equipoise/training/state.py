"""All that a run needs to go on as if it had never stopped, kept beside the model in its checkpoint:

    model.safetensors      the weights to use: the moving average, where there is one
    training.safetensors   optimiser/...  its moments, by parameter
                           weights/...    what is being trained, where the file above holds the average
                           random/...     the states of torch's random generators
    training.json          how far the run has come (`Position`)

Schedule and data have no state of their own: learning rate and batch are functions of the step's number.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from equipoise.files import write_text
from equipoise.models.folder import WEIGHTS, read_tensors, read_weights, write_tensors
from equipoise.models.model import Model
from equipoise.training.average import Average
from equipoise.training.step import Step
from equipoise.types import UserError

TENSORS, POSITION = "training.safetensors", "training.json"


@dataclass
class Position:
    """How far a run has come."""

    step: int = 0  # steps done
    samples: int = 0  # in the training data, which must be the same when the run goes on
    seconds: float = 0.0  # of training, evaluation and checkpoints left out
    records: int = 0  # in metrics.jsonl
    evaluated: int = 0  # the step of the last evaluation
    validation: dict[str, float] = field(default_factory=dict)  # what it measured
    best: float | None = None  # the highest value of the metric that chooses
    captions_cut: int = 0  # for being longer than the context


@dataclass(frozen=True)
class State:
    """The live parts of a run that change from step to step."""

    model: Model
    step: Step
    average: Average | None

    def tensors(self) -> dict[str, Tensor]:
        weights = self.model.state_dict() if self.average else {}
        return {
            **_named("optimiser", self.step.state()),
            **_named("weights", weights),
            **_named("random", _random_states(self.model.device)),
        }

    def write(self, folder: Path, position: Position) -> None:
        write_tensors(folder / TENSORS, self.tensors())
        write_text(folder / POSITION, json.dumps(asdict(position), indent=2) + "\n")

    def read(self, folder: Path) -> Position:
        """Load what `write` wrote; a folder that cannot be used is named, with the way round it."""
        try:
            position = Position(**json.loads((folder / POSITION).read_text(encoding="utf-8")))
            self._load(folder, read_tensors(folder / TENSORS))
        except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
            raise UserError(
                f"cannot continue from {folder}: {error}; move it away to continue from the checkpoint before it"
            ) from error
        self.model.tokens.truncated = position.captions_cut
        return position

    def _load(self, folder: Path, tensors: Mapping[str, Tensor]) -> None:
        read_weights(self.model, folder / WEIGHTS)
        if self.average:
            self.average.load(self.model.state_dict())
            self.model.load_state_dict(_part(tensors, "weights"))
        self.step.load_state(_part(tensors, "optimiser"))
        _set_random_states(_part(tensors, "random"), self.model.device)


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    return states | {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else states


def _set_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type != "cuda":
        return
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
    else:
        warnings.warn("the checkpoint was made without a GPU: the run goes on, but draws other numbers", stacklevel=2)


def _named(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{part}/{name}": tensor for name, tensor in tensors.items()}


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{part}/"): t for name, t in tensors.items() if name.startswith(f"{part}/")}
