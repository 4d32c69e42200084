"""Fine-tuning small enough for every test."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from equipoise.config import Loaded, load_layers
from equipoise.finetuning.layers import finetuning_layers
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.step import Step
from equipoise.types import UserError
from equipoise.workflows import finetune, train_run
from equipoise.workflows.finetune_select import SelectedWeights, select_weights
from equipoise.workflows.start_model import Start, load_start

SHIFTED = (
    "data.train_size=64", "data.validation_size=16", "data.test_size=16", "data.shift=rotation", "training.device=cpu",
    "training.steps=8", "training.batch_size=16", "training.warmup_steps=2", "training.learning_rate=3e-3",
    "training.log_every=1", "training.evaluate_every=2", "training.checkpoint_every=3",
    "training.probe.learning_rate=1e-2",
)  # fmt: skip


BY_THE_CLOCK = ("seconds", "pairs_per_second")


def tuned(start: Path, out: Path, method: str, *more: str, resume: bool = False) -> dict[str, Any]:
    """What `tuning.json` says, whether the start was beaten or not."""
    with suppress(UserError):
        finetune(start, "demo", method, (*SHIFTED, *more), out, resume=resume)
    return json.loads((out / "tuning.json").read_text())


def described(start: Path, method: str, *more: str) -> tuple[Loaded, Start]:
    begun = load_start(start)
    return load_layers(*finetuning_layers(str(start), begun.table, "demo", method, (*SHIFTED, *more))), begun


def ended(start: Path, folder: Path, method: str, *more: str) -> SelectedWeights:
    """A run up to the choice of what is kept, without its report."""
    loaded, begun = described(start, method, *more)
    model, _ = train_run(loaded, folder, start=begun)
    return select_weights(loaded, begun, model.tokens, folder, Ranks())


def trained(start: Path, folder: Path, method: str, *more: str) -> tuple[dict[str, Tensor], list[dict[str, float]]]:
    """What the loop alone ends with: weights, and what was logged."""
    loaded, begun = described(start, method, *more)
    model, outcome = train_run(loaded, folder, start=begun)
    records = [
        {name: value for name, value in record.items() if name not in BY_THE_CLOCK} for record in outcome.records
    ]
    return model.state_dict(), records


def stop(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """A run gets SIGTERM in the middle of a step, saves and ends."""
    whole = Step.__call__

    def interrupted(self, batch, number, average=None):
        if number == after:
            signal.raise_signal(signal.SIGTERM)
        return whole(self, batch, number, average)

    monkeypatch.setattr(Step, "__call__", interrupted)


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)
