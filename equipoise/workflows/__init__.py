"""The work of the commands: train, evaluate, convert, audit and explain models, from recipes and folders to reports."""

from __future__ import annotations

from equipoise.workflows.convert import export_model, import_model
from equipoise.workflows.evaluate import evaluate_folder
from equipoise.workflows.finetune import finetune
from equipoise.workflows.hub import pull_model, push_model
from equipoise.workflows.load import build_model, load, load_foreign
from equipoise.workflows.preview import preview, write_data
from equipoise.workflows.shift import shift_model
from equipoise.workflows.train import resume_folder, run_recipe
from equipoise.workflows.train_model import train_run

__all__ = [
    "build_model",
    "evaluate_folder",
    "export_model",
    "finetune",
    "import_model",
    "load",
    "load_foreign",
    "preview",
    "pull_model",
    "push_model",
    "resume_folder",
    "run_recipe",
    "shift_model",
    "train_run",
    "write_data",
]
