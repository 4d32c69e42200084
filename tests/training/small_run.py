"""A run small enough for every test: a few dozen scenes, one block a tower, patch dropout and a moving average on."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from equipoise.config import Loaded, dump, load_run
from equipoise.data.batches import Batches
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.folder import read_parts, step_folders, step_number
from equipoise.models.model import Model
from equipoise.objectives import Objective
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.loop import TrainResult, train
from equipoise.types import Batch, Loss
from equipoise.workflows import build_model

RECIPE = """
extends = "demo"
[data]
train_size = 40
validation_size = 8
test_size = 8
[tokens]
vocabulary = 600
[image]
width = 32
layers = 1
heads = 2
patch_dropout = 0.5
[text]
width = 32
layers = 1
heads = 2
[space]
dim = 16
[training]
device = "cpu"
steps = 8
batch_size = 8
warmup_steps = 2
ema = 0.9
log_every = 1
evaluate_every = 4
checkpoint_every = 3
"""
BY_THE_CLOCK = ("seconds", "pairs_per_second")
Event = Callable[[], object]


def _nothing() -> None: ...


NEVER: Mapping[int, Event] = {}


def sent(number: int) -> Event:
    """This process gets a signal."""
    return partial(signal.raise_signal, number)


FULL, ROOMY = 100_000, resource.RLIM_INFINITY


def set_disk(largest_file: int) -> None:
    """Files cannot grow beyond a size: the system refuses as a full disk does, for real and without being root."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))


def write_recipe(folder: Path) -> Path:
    (folder / "small.toml").write_text(RECIPE)
    return folder / "small.toml"


class EventfulBatches(Batches):
    """Batches during whose making something happens."""

    events: Mapping[int, Event]  # by the number of the step a batch is for

    def starting_at(self, position: int, workers: int | None = None) -> Iterator[Batch]:
        for number, batch in enumerate(super().starting_at(position, workers), position + 1):
            self.events.get(number, _nothing)()
            yield batch


@dataclass
class EventfulObjective:
    """An objective during whose work something happens."""

    objective: Objective
    events: Mapping[int, Event]
    step: int

    @property
    def needs(self) -> Sequence[str]:
        return self.objective.needs

    @property
    def divisible(self) -> bool:
        return self.objective.divisible

    @property
    def shown(self) -> Sequence[str]:
        return self.objective.shown

    def prepared(self, batch: Batch) -> Batch:
        return self.objective.prepared(batch)

    def taught(self, batch: Batch) -> Batch:
        return self.objective.taught(batch)

    def check_batches(self, size: int, micro: int) -> None:
        self.objective.check_batches(size, micro)

    def loss(self, *arguments: Any, **named: Any) -> Loss:
        self.step += 1
        self.events.get(self.step, _nothing)()
        return self.objective.loss(*arguments, **named)


@dataclass
class SmallRun:
    loaded: Loaded
    folder: Path
    ranks: Ranks = field(default_factory=Ranks)

    def go(
        self,
        in_step: Mapping[int, Event] = NEVER,
        in_data: Mapping[int, Event] = NEVER,
        in_evaluation: Event = _nothing,
        resume: bool = False,
        until: int | None = None,
    ) -> TrainResult:
        """Train, while things happen in the middle of steps, of waiting for their data, and of every evaluation."""
        run = self.loaded.run
        source = run.data.build("train")
        torch.manual_seed(run.seed)
        found = step_folders(self.folder)
        captions = (caption for index in range(len(source)) for caption in source.pair(index).captions)
        learned = self.ranks.on_main(lambda: CaptionTokenizer.from_config(run.caption_tokens(), captions))
        tokens = read_parts(found[-1])[0] if found and resume else learned
        self.model = build_model(run, tokens)
        self.evaluations = 0
        size, workers = run.training.batch_size, run.training.workers
        batches = EventfulBatches(
            source, tokens, run.preprocess, batch_size=size, seed=run.seed, workers=workers, share=self.ranks.share,
            views=run.objective.views,
        )  # fmt: skip
        batches.events = in_data
        done = step_number(found[-1]) if found and resume else 0
        objective = EventfulObjective(run.objective, in_step, done)

        def evaluate(model: Model) -> dict[str, float]:
            self.evaluations += 1
            in_evaluation()
            points = model.encode_text(["a red fish", "a blue circle"])
            return {"mean_recall": float(points.sum())}

        config = dump(self.loaded.table)
        return train(
            self.model, objective, batches, run.training, folder=self.folder, config=config, evaluate=evaluate,
            resume=resume, ranks=self.ranks, until=until,
        )  # fmt: skip


def small_run(folder: Path, *overrides: str, ranks: Ranks | None = None) -> SmallRun:
    ranks = ranks or Ranks()
    folder.mkdir(parents=True, exist_ok=True)
    recipe = ranks.on_main(lambda: write_recipe(folder.parent))
    return SmallRun(load_run(recipe, overrides), folder, ranks)


def without_clock(records: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in record.items() if name not in BY_THE_CLOCK} for record in records]
