"""The end of a fine-tuning run: select the weights to keep, and compare them with the start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from equipoise.config import Loaded, load_settings
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.evaluation.evaluator import EvalResult
from equipoise.finetuning.comparison import CHOSEN, START, TUNED, Comparison
from equipoise.finetuning.wise_ft import interpolate_weights
from equipoise.io.atomic import write_text
from equipoise.io.json_files import read_json_table
from equipoise.models.folder import BEST, CHECKPOINTS, METRICS, read_weights, step_folders
from equipoise.models.model import Model
from equipoise.training.distributed.ranks import Ranks
from equipoise.types import UserError
from equipoise.workflows.finetune_measure import Measurer
from equipoise.workflows.load import build_model
from equipoise.workflows.start_model import Start

TUNING = "tuning.json"


@dataclass(frozen=True)
class SelectedWeights:
    loaded: Loaded  # the run, with the settings that describe the model
    model: Model  # with the weights that are kept
    findings: Mapping[str, EvalResult]  # of it on the test data
    comparison: Comparison


def select_weights(
    loaded: Loaded, start: Start, tokens: CaptionTokenizer, folder: Path, ranks: Ranks
) -> SelectedWeights:
    """Score interpolations between start and end on validation data; measure start, end and the best. For all ranks."""
    run = loaded.run
    measurer = Measurer(run, start, ranks)
    torch.manual_seed(run.seed)  # what was added begins as it did when the run began
    model = measurer.prepare(build_model(run, tokens))
    start.begin(model, run)
    first = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    last = run.lora.merged(read_weights(tuned_folder(folder)))

    def at(share: float) -> Model:
        model.load_state_dict(interpolate_weights(first, last, share))
        return model

    shares = run.finetuning.tried
    measurer.measure(START, start.model)
    findings = measurer.measure(TUNED, at(1.0))
    scores = measurer.curve(shares, at)
    share = measurer.comparison(shares, scores).chosen
    kept = at(share)
    if not share:
        loaded = _without_prompts(loaded, start)
        kept = measurer.prepare(build_model(loaded.run, start.model.tokens))
        start.begin(kept, loaded.run)
    if run.finetuning.wise or share < 1:
        findings = measurer.measure(CHOSEN, kept)
    return SelectedWeights(loaded, kept, findings, measurer.comparison(shares, scores))


def _without_prompts(loaded: Loaded, start: Start) -> Loaded:
    """The run without the prompts it added: with untrained prompts it would not be the start model."""
    prompts = load_settings(start.table, start.path).run.prompts
    table = {**loaded.table, "prompts": start.table["prompts"]}
    return Loaded(replace(loaded.run, prompts=prompts), table)


def measure_start(loaded: Loaded, start: Start, ranks: Ranks) -> Comparison:
    """Measure the start model alone."""
    measurer = Measurer(loaded.run, start, ranks)
    measurer.measure(START, start.model)
    return measurer.comparison((0.0,), (measurer.score(start.model),))


def write_comparison(folder: Path, comparison: Comparison) -> None:
    write_text(folder / TUNING, json.dumps(comparison.to_json(), indent=2) + "\n")


def read_comparison(folder: Path) -> Comparison | None:
    path = folder / TUNING
    if not path.is_file():
        return None
    stored = read_json_table(path)
    try:
        return Comparison.from_json(stored)
    except (KeyError, TypeError) as error:
        raise UserError(f"cannot read {path}: {error} is missing or of another kind; fine-tune anew") from None


def tuned_folder(folder: Path) -> Path:
    """The checkpoint with the best weights on validation data after step 0; the last one where none beat the start."""
    best = folder / CHECKPOINTS / BEST
    trained = best.is_dir() and _step_of(best / METRICS) > 0
    return best if trained else step_folders(folder)[-1]


def _step_of(metrics: Path) -> int:
    step = read_json_table(metrics).get("step")
    if not isinstance(step, int | float):
        raise UserError(f"cannot read {metrics}: it does not say the step; fine-tune anew")
    return int(step)
