"""`equipoise eval`: evaluate a model on its own data or on another recipe's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from equipoise.config import Loaded, Run, load_stored
from equipoise.data.unreadable_pictures import readable_pictures
from equipoise.evaluation.evaluate import evaluate
from equipoise.evaluation.evaluator import EvalResult
from equipoise.evaluation.robustness import Robustness, robustness
from equipoise.io.atomic import write_text
from equipoise.io.numbers import hand_over
from equipoise.io.tables import print_tables
from equipoise.models.folder import CONFIG, model_folder
from equipoise.models.model import Model
from equipoise.training.device import torch_device
from equipoise.training.distributed.agreement import Facts, data_facts, model_facts, require_agreement
from equipoise.training.distributed.process_group import process_group
from equipoise.training.distributed.sharded_encoding import sharded_encoding
from equipoise.training.distributed.wrap import device_of_rank
from equipoise.types import UserError
from equipoise.workflows.load import load_with_settings
from equipoise.workflows.own_files import RECIPE, has_splits
from equipoise.workflows.save import print_findings, write_findings
from equipoise.workflows.subject import find_run, names_files

CHANGE = "robustness.json"


def evaluate_folder(
    path: Path,
    data: str | None,
    overrides: Sequence[str],
    split: str,
    out: Path | None,
    device: str = "auto",
    before: Path | None = None,
) -> None:
    """Evaluate a model folder on its own data, a recipe's or files; print, and write JSON to `out` if there is one.
    With `before`, another model folder, also the change of its accuracies. Under torchrun ranks share the encoding."""
    with process_group() as ranks:
        require_agreement(ranks, lambda: {"--device": device, "--split": split, "--before": before and str(before)})
        place = device_of_rank(torch_device(device), ranks)
        other = _other_settings(path, data, overrides, split)
        loaded = [load_with_settings(folder, place) for folder in (path, before) if folder is not None]
        settings = other or loaded[0][1]
        run, models = settings.run, [model for model, _ in loaded]
        require_agreement(ranks, lambda: settings.table)
        source = readable_pictures(run.data.build(split)) if split == "train" else run.data.build(split)
        require_agreement(ranks, lambda: {**data_facts(split, source), **_model_facts(models)})
        found = []
        for model in models:
            with sharded_encoding(model, ranks):
                found.append(evaluate(model, source, run.evaluation))
        findings, *earlier = found
        change = robustness(earlier[0], findings) if earlier else None
        if ranks.is_main:
            _report(run, path, findings, change, out)
        ranks.barrier()


def _model_facts(models: Sequence[Model]) -> Facts:
    """Facts about the models on which all ranks must agree."""
    return {
        f"{name} of model {n}": fact for n, model in enumerate(models, 1) for name, fact in model_facts(model).items()
    }


def _other_settings(path: Path, data: str | None, overrides: Sequence[str], split: str) -> Loaded | None:
    """The settings of the run whose data to evaluate on, where it is not the model's own as it was trained."""
    if data:
        found = find_run(data, RECIPE, overrides, "whole")
        if split != "test" and names_files(data) and not has_splits(found.table["data"]):
            raise UserError(f"--split {split} belongs to recipes; files are evaluated whole, so leave it out")
        return found
    stored = model_folder(path) / CONFIG  # raises UserError for a model of another library, which has no data
    return load_stored(stored, overrides) if overrides else None


def _report(
    run: Run, path: Path, findings: Mapping[str, EvalResult], change: Robustness | None, out: Path | None
) -> None:
    print_findings(findings)
    hand_over({"model": str(path)})
    if change:
        print_tables(change.table())
        hand_over({"change": change.numbers()})
    if out is not None:
        write_findings(out, run, str(path), findings)
        if change:
            write_text(out / "results" / CHANGE, json.dumps(change.numbers(), indent=2) + "\n")
        print(f"\nThe results are in {out}")
