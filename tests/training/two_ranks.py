"""What each of two processes does in test_ranks.py: three steps on its half of the batches; the first writes."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from small_model import objective_named, part_of
from test_ranks import WITH_EXCHANGE, batch_of, model_of, name_of
from torch.utils._pytree import tree_leaves

from equipoise.training.distributed.dtensors import gather_full
from equipoise.training.distributed.process_group import process_group
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.ema import EMA
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Embeddings


def steps(
    objective: str, parallel: str, micro: int, impl: str, space: str, exchange: str, ranks: Ranks
) -> dict[str, torch.Tensor]:
    settings = Training(
        learning_rate=1e-2, warmup_steps=0, micro_batch=micro, parallel=parallel, exchange=exchange, ema=0.5
    )
    model = model_of(space).train()
    step = Step(model, objective_named(objective, impl), settings, torch.device("cpu"), ranks)
    if parallel == "fsdp":  # torch 2.11 gathers parameters for the backward pass by what it finds in a model's output
        points = torch.zeros(1, 2)
        assert all(leaf is points for leaf in tree_leaves(Embeddings(points, points)))
    average = EMA(model, 0.5)
    batches = [part_of(batch_of(space, seed), *ranks.share) for seed in (1, 2, 3)]
    losses = []
    for number, batch in enumerate(batches, start=1):
        loss = step(batch, number, average).loss
        losses.append(loss.total.item())
        average.update(model, number)
    logged = [*losses, *loss.facts().values()]
    return {"losses": torch.tensor(logged).double(), **gather_full(model.state_dict(), ranks)}


def gradients(exchange: str, micro: int, ranks: Ranks) -> dict[str, torch.Tensor]:
    settings = Training(micro_batch=micro, exchange=exchange)
    model = model_of("siglip").train()
    step = Step(model, objective_named("siglip", "tiled"), settings, torch.device("cpu"), ranks)
    step._backward(part_of(batch_of("siglip", 1), *ranks.share))
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


torch.set_num_threads(1)
with process_group() as ranks:
    for exchange in ("everything", "gathered", "ring"):
        for micro in (0, 4):
            grads = gradients(exchange, micro, ranks)
            if ranks.is_main:
                save_file(grads, Path(sys.argv[1]) / f"gradients-{exchange}-{micro}.safetensors")
    for case in WITH_EXCHANGE:
        found = steps(*case, ranks)
        if ranks.is_main:
            save_file(found, Path(sys.argv[1]) / f"{name_of(case)}.safetensors")
