"""What a run does, from recipe to report, and what can be done with what it left behind."""

from __future__ import annotations

from equipoise.runs.carrying import resume_folder, run_recipe, train_run
from equipoise.runs.evaluating import evaluate_folder
from equipoise.runs.exchanging import export_model, import_model
from equipoise.runs.loading import build_model, load, load_foreign
from equipoise.runs.pictures import preview, write_data
from equipoise.runs.shifting import shift_model

__all__ = [
    "build_model",
    "evaluate_folder",
    "export_model",
    "import_model",
    "load",
    "load_foreign",
    "preview",
    "resume_folder",
    "run_recipe",
    "shift_model",
    "train_run",
    "write_data",
]
