"""A model folder measured on its own data or on others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from equipoise.config import load_run, load_stored
from equipoise.evaluation.evaluate import evaluate
from equipoise.models.folder import CONFIG, model_folder
from equipoise.runs.loading import load
from equipoise.runs.writing import print_findings, write_findings
from equipoise.training.device import torch_device
from equipoise.training.joining import joined
from equipoise.training.parallel import own_device
from equipoise.training.sharing import Sharing


def evaluate_folder(
    path: Path, data: str | None, overrides: Sequence[str], split: str, out: Path | None, device: str = "auto"
) -> None:
    """Evaluate a model folder on its own data or a recipe's; print, and write JSON where asked. Under torchrun the
    processes share the encoding."""
    with joined() as ranks:
        model = load(path, own_device(torch_device(device), ranks))
        if ranks.world > 1:
            model.spread = Sharing(ranks)
        stored = model_folder(path) / CONFIG
        run = (load_run(data, overrides) if data else load_stored(stored, overrides)).run
        findings = evaluate(model, run.data.build(split), run.evaluation)
        if ranks.leads:
            print_findings(findings)
            if out is not None:
                write_findings(out, run, str(path), findings)
                print(f"\nThe results are in {out}")
        ranks.wait()
