"""All that a run needs to go on as if it had never stopped, kept beside the model in its checkpoint:

    model.safetensors      the weights to use: the moving average, where there is one
    training.safetensors   optimizer/...  its moments, by parameter
                           weights/...    what is being trained, where the file above holds the average
                           memory/...     what the objective's heads have kept of former batches
                           random/R/...   the states of torch's random generators on rank R
    rows-R-of-W.safetensors  under FSDP2, what rank R holds of optimizer/... and weights/..., some rows of each
    training.json          how far the run has come (`RunProgress`)

Schedule and data have no state of their own: learning rate and batch are functions of the step's number.
Nothing depends on how many ranks wrote it but the random states: another number goes on with other draws.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from torch import Tensor

from equipoise.io.atomic import write_text
from equipoise.models.folder import WEIGHTS, write_tensors
from equipoise.models.model import Model
from equipoise.training.checkpoint.rng import rng_states, seed_by_rank, set_rng_states
from equipoise.training.distributed.dtensors import gather_full, is_sharded, local_part
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.stored_tensors import CheckpointReader
from equipoise.training.ema import EMA
from equipoise.training.step import Step
from equipoise.types import UserError

TENSORS, POSITION, ROWS = "training.safetensors", "training.json", "rows-{:05d}-of-{:05d}.safetensors"
OPTIMIZER = "optimiser"  # as checkpoints have spelled it from the first


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


@dataclass(frozen=True)
class Snapshot:
    """A moment of a run, as this rank will write it; nothing in it needs the others any more."""

    weights: dict[str, Tensor]  # to use; on the first rank
    tensors: dict[str, Tensor]  # of training; on the first rank
    rows: dict[str, Tensor]  # of what is spread over the ranks


@dataclass(frozen=True)
class TrainingState:
    """The live parts of a run that change from step to step."""

    model: Model
    step: Step
    average: EMA | None
    ranks: Ranks = field(default_factory=Ranks)

    def weights(self) -> dict[str, Tensor]:
        """Those to use, whole, on the first rank."""
        return gather_full(self.average.weights if self.average else self.model.state_dict(), self.ranks)

    def snapshot(self) -> Snapshot:
        trained = self.model.state_dict() if self.average else {}
        held = {
            **_named(OPTIMIZER, self.step.state()),
            **_named("weights", trained),
            **_named("memory", self.model.memory()),
        }
        random: dict[str, Tensor] = {}
        for rank, states in enumerate(self.ranks.gather_objects(rng_states(self.model.device))):
            random |= _named(f"random/{rank}", states)
        return Snapshot(
            weights=self.weights(),
            tensors={**{name: tensor for name, tensor in held.items() if not is_sharded(tensor)}, **random},
            rows={name: local_part(tensor) for name, tensor in held.items() if is_sharded(tensor)},
        )

    def write(self, snapshot: Snapshot, folder: Path, position: RunProgress) -> None:
        """What the first rank writes."""
        write_tensors(folder / TENSORS, snapshot.tensors)
        write_text(folder / POSITION, json.dumps(asdict(position), indent=2) + "\n")

    def write_rows(self, snapshot: Snapshot, folder: Path) -> None:
        """What every rank writes, after the first has written the model."""
        if snapshot.rows:
            write_tensors(folder / ROWS.format(*self.ranks.share), snapshot.rows)

    def read(self, folder: Path) -> RunProgress:
        """Load what was written; a folder that cannot be used is named, with the way round it."""
        try:
            position = RunProgress(**json.loads((folder / POSITION).read_text(encoding="utf-8")))
            self._load(folder, position)
        except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
            raise UserError(
                f"cannot continue from {folder}: {error}; move it away to continue from the checkpoint before it"
            ) from error
        self.model.tokens.truncated = position.captions_cut if self.ranks.is_main else 0
        return position

    def _load(self, folder: Path, position: RunProgress) -> None:
        weights, training = CheckpointReader([folder / WEIGHTS]), CheckpointReader(_files(folder, position.processes))
        if self.average:
            weights.load_into(self.average.weights)
            training.load_into(self.model.state_dict(), "weights/")
        else:
            weights.load_into(self.model.state_dict())
        self.step.load_state(training, f"{OPTIMIZER}/")
        training.load_into(self.model.memory(), "memory/")
        if position.processes != self.ranks.world:
            warnings.warn(
                f"the run was saved by {position.processes} processes and goes on with {self.ranks.world}: the data "
                "come in the same order, but sums are rounded in another, and random draws differ",
                stacklevel=2,
            )
        if self.ranks.rank < position.processes:
            set_rng_states(training, f"random/{self.ranks.rank}/", self.model.device)
        else:
            seed_by_rank(self.ranks, position.step)


def _files(folder: Path, world: int) -> list[Path]:
    rows = [folder / ROWS.format(rank, world) for rank in range(world)]
    return [folder / TENSORS, *(rows if rows[0].exists() else ())]


def _named(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{part}/{name}": tensor for name, tensor in tensors.items()}
