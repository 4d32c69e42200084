"""All that a run needs to go on as if it had never stopped, kept beside the model in its checkpoint:

    model.safetensors      the weights to use: the moving average, where there is one
    training.safetensors   optimiser/...  its moments, by parameter
                           weights/...    what is being trained, where the file above holds the average
                           memory/...     what the objective's heads have kept of former batches
                           random/R/...   the states of torch's random generators on rank R
    sharded/               under FSDP2, optimiser/... and weights/... in parts, by DCP (`distributed_checkpoint.py`)
    training.json          how far the run has come (`RunProgress`)

Schedule and data have no state of their own: learning rate and batch are functions of the step's number.
Nothing depends on how many ranks wrote it but the random states: another number goes on with other draws.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from torch import Tensor

from equipoise.io.atomic import write_text
from equipoise.models.folder import WEIGHTS, step_number, write_tensors
from equipoise.models.model import Model
from equipoise.ops.finite import first_not_finite
from equipoise.ops.out_of_memory import lacks_memory
from equipoise.training.checkpoint.distributed_checkpoint import (
    MEMORY,
    OPTIMIZER,
    RANDOM,
    SHARDED,
    TRAINED,
    CheckpointReader,
    save_sharded,
)
from equipoise.training.checkpoint.optimizer_state import load_optimizer_state, optimizer_state, steps_counted
from equipoise.training.checkpoint.progress_file import read_progress
from equipoise.training.checkpoint.rng import rng_states, seed_by_rank, set_rng_states
from equipoise.training.distributed.dtensors import gather_full, is_sharded, local_part
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.ema import EMA
from equipoise.training.step import Step
from equipoise.types import UserError

TENSORS, PROGRESS = "training.safetensors", "training.json"


@dataclass
class RunProgress:
    """How far a run has come."""

    step: int = 0  # steps done
    samples: int = 0  # in the training data, which must be the same when the run goes on
    seconds: float = 0.0  # of training, evaluation and checkpoints left out
    records: int = 0  # in metrics.jsonl
    evaluated: int = -1  # the step of the last evaluation; before any, -1
    validation: dict[str, float] = field(default_factory=dict)  # what it measured
    best: float | None = None  # the highest value of the metric that chooses
    captions_cut: int = 0  # for being longer than the context
    processes: int = 1  # that trained together
    bad_records: list[dict[str, int]] = field(default_factory=list)  # counted in the epoch so far, per process


@dataclass(frozen=True)
class Snapshot:
    """The tensors of a checkpoint; the first rank holds all that are whole."""

    weights: dict[str, Tensor]  # to use; on the first rank
    tensors: dict[str, Tensor]  # state of training that every rank has whole, and the random states of all
    sharded: dict[str, Tensor]  # state of training that is spread over the ranks


@dataclass(frozen=True)
class TrainingState:
    """The live parts of a run that change from step to step."""

    model: Model
    step: Step
    average: EMA | None
    ranks: Ranks = field(default_factory=Ranks)

    def weights(self) -> dict[str, Tensor]:
        """The weights to use, whole, on the first rank."""
        return gather_full(self.average.weights if self.average else self.model.state_dict(), self.ranks)

    def snapshot(self) -> Snapshot:
        trained = self.model.state_dict() if self.average else {}
        state = {
            **_prefixed(OPTIMIZER, optimizer_state(self.model, self.step.optimizer)),
            **_prefixed(TRAINED, trained),
            **_prefixed(MEMORY, self.model.memory()),
        }
        random: dict[str, Tensor] = {}
        for rank, states in enumerate(self.ranks.gather_objects(rng_states(self.model.device))):
            random |= _prefixed(f"{RANDOM}{rank}/", states)
        return Snapshot(
            weights=self.weights(),
            tensors={**{name: tensor for name, tensor in state.items() if not is_sharded(tensor)}, **random},
            sharded={name: tensor for name, tensor in state.items() if is_sharded(tensor)},
        )

    def write_whole(self, snapshot: Snapshot, folder: Path, position: RunProgress) -> None:
        """Write what the first rank has to write beside the model."""
        write_tensors(folder / TENSORS, snapshot.tensors)
        write_text(folder / PROGRESS, json.dumps(asdict(position), indent=2) + "\n")

    def write_sharded(self, snapshot: Snapshot, folder: Path) -> dict[str, str]:
        """Write what is spread over the ranks, all of which call it; gives the digests of this rank's files."""
        written = save_sharded(snapshot.sharded, folder / SHARDED) if snapshot.sharded else {}
        return {f"{SHARDED}/{name}": digest for name, digest in written.items()}

    def read(self, folder: Path) -> RunProgress:
        """Load a checkpoint, each rank by itself; a UserError names one that cannot be used and the way round it."""
        try:
            position = read_progress(folder / PROGRESS, RunProgress)
            self._load(folder, position)
            self._require_sound(folder, position)
        except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
            if lacks_memory(error):
                raise
            raise cannot_continue(folder, error) from error
        self.model.tokens.truncated = position.captions_cut if self.ranks.is_main else 0
        return position

    def _load(self, folder: Path, position: RunProgress) -> None:
        for name in (WEIGHTS, TENSORS):
            (folder / name).stat()  # raises OSError with its name where it is missing
        stored = CheckpointReader(folder)
        if self.average:
            stored.load_into(self.average.weights)
            stored.load_into(self.model.state_dict(), TRAINED)
        else:
            stored.load_into(self.model.state_dict())
        load_optimizer_state(self.model, self.step.optimizer, stored)
        stored.load_into(self.model.memory(), MEMORY)
        _require_processes(stored.names(RANDOM), position.processes)
        if position.processes != self.ranks.world:
            warnings.warn(
                f"the run was saved by {position.processes} processes and goes on with {self.ranks.world}: the data "
                "come in the same order, but sums are rounded in another, and random draws differ",
                stacklevel=2,
            )
        if self.ranks.rank < position.processes:
            set_rng_states(stored, self.ranks.rank, self.model.device)
        else:
            seed_by_rank(self.ranks, position.step)

    def _require_sound(self, folder: Path, position: RunProgress) -> None:
        """Raise UserError if what was loaded is of another step, or holds numbers that are not finite."""
        moments = optimizer_state(self.model, self.step.optimizer)
        steps = {"the folder": step_number(folder), PROGRESS: position.step, TENSORS: steps_counted(moments)}
        if len(set(steps.values())) > 1:
            of = ", ".join(f"{name} of step {step}" for name, step in steps.items())
            raise UserError(f"its parts do not belong together ({of})")
        averaged = _prefixed("the average of ", self.average.weights if self.average else {})
        memory = _prefixed(MEMORY, self.model.memory())
        loaded = {**self.model.state_dict(), **averaged, **memory, **_prefixed(OPTIMIZER, moments)}
        if name := first_not_finite({name: local_part(tensor) for name, tensor in loaded.items()}):
            raise UserError(f"{name} holds numbers that are not finite (NaN or infinite)")


def cannot_continue(folder: Path, error: Exception) -> UserError:
    return UserError(f"cannot continue from {folder}: {error}; move it away to continue from the checkpoint before it")


def _require_processes(random: Sequence[str], processes: int) -> None:
    """Raise UserError unless there are random states of as many ranks as are said to have saved the run."""
    ranks = {name.partition("/")[0] for name in random}
    if ranks != {str(rank) for rank in range(min(processes, len(ranks) + 1))}:
        raise UserError(f"{PROGRESS} says that {processes} processes saved it, {TENSORS} has states of {len(ranks)}")


def _prefixed(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{part}{name}": tensor for name, tensor in tensors.items()}
