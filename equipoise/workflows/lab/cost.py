"""`equipoise lab cost`: what do class tokens add to the cost of a recipe's towers?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import torch
from torch import nn

from equipoise.analysis.cost import Cost, TowerCost, costs, draw_cost, tower
from equipoise.analysis.report import AnalysisReport
from equipoise.config import Run, load_run
from equipoise.evaluation.metrics import percent
from equipoise.io.progress import Progress
from equipoise.training.device import torch_device
from equipoise.types import UserError


def measure_cost(recipe: str, overrides: Sequence[str], class_tokens: Sequence[int], batch: int) -> AnalysisReport:
    """Both towers of a recipe with each number of class tokens, beside the estimate."""
    if batch < 1:
        raise UserError(f"a batch has at least 1 sample, not {batch}")
    counts = sorted({1, *class_tokens})
    towers = _towers(load_run(recipe, overrides).run)
    found: dict[str, list[Cost]] = {}
    with Progress(len(towers), "measuring") as progress:
        for done, one in enumerate(towers, 1):
            found[one.name] = costs(one, counts, batch)
            progress.update(done)
    conclusion = sentence(found)
    device = str(next(towers[0].blocks.parameters()).device)
    shown = {name: [asdict(cost) for cost in some] for name, some in found.items()}
    numbers = {"recipe": recipe, "set": list(overrides), "batch": batch, "device": device,
               "threads": torch.get_num_threads(), "towers": shown}  # fmt: skip
    return AnalysisReport("cost", conclusion, numbers, draw_cost(found, conclusion))


def _towers(run: Run) -> list[TowerCost]:
    patch = getattr(run.image, "patch", None)
    context, vocabulary = run.tokens.context, max(1, run.tokens.vocabulary)
    image: nn.Module = run.image.build(run.preprocess.size)
    text: nn.Module = run.text.build(vocabulary, context)
    patches = (run.preprocess.size // patch) ** 2 if patch else 0
    found = [tower("image", image, patches + 1), tower("text", text, context)]
    for one in found:
        one.blocks.to(torch_device("auto"))
    return found


def sentence(found: Mapping[str, Sequence[Cost]]) -> str:
    parts = []
    for name, costs_of in found.items():
        first, last = costs_of[0], costs_of[-1]
        estimated, measured, kept, time = (
            getattr(last, field) / getattr(first, field) - 1
            for field in ("estimated_macs", "measured_macs", "measured_activations", "seconds_training")
        )
        parts.append(
            f"{last.class_tokens} class tokens instead of 1 add {percent(estimated)} to the multiply-adds of the "
            f"{name} tower by the estimate, {percent(measured)} as counted, and {percent(kept)} to its "
            f"activations; its time in training changes by {100 * time:+.0f}%"
        )
    return f"{'; '.join(parts)}."
