"""Import and export: models of open_clip and transformers read as ours, ours written as theirs and as ONNX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from equipoise.interop.export import training_only_parts, write_open_clip, write_transformers
from equipoise.interop.foreign_model import ForeignModel, ImportRequest
from equipoise.interop.load import is_foreign, read_foreign
from equipoise.interop.onnx import write_onnx
from equipoise.models.model import Model

EXPORTS: dict[str, Callable[[Model, Path], None]] = {
    "open_clip": write_open_clip,
    "transformers": write_transformers,
    "onnx": write_onnx,
}

__all__ = ["EXPORTS", "ForeignModel", "ImportRequest", "is_foreign", "read_foreign", "training_only_parts"]
