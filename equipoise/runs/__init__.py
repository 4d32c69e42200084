"""What a run does, from recipe to report, and what can be done with what it left behind."""

from __future__ import annotations

from equipoise.runs.carrying import resume_folder, run_recipe
from equipoise.runs.evaluating import evaluate_folder
from equipoise.runs.exchanging import export_model, import_model
from equipoise.runs.finetuning import finetune
from equipoise.runs.loading import build_model, load, load_foreign
from equipoise.runs.pictures import preview, write_data
from equipoise.runs.shifting import shift_model
from equipoise.runs.training import train_run

__all__ = [
    "build_model",
    "evaluate_folder",
    "export_model",
    "finetune",
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
