"""The data that a keep file was made of, as its note describes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.config import load_settings
from equipoise.data.keep.file import NOTE
from equipoise.data.source import Source
from equipoise.types import UserError
from equipoise.workflows.audit.folds import training_pairs
from equipoise.workflows.audit.pictures import PictureData


def judged_data(folder: Path, note: Mapping[str, Any]) -> Source:
    """The records that were judged, in their order, features with the pictures that were shown; grey pictures stand for
    those that cannot be read."""
    recipe = note.get("recipe")
    if not isinstance(recipe, dict):
        raise UserError(f"{folder / NOTE} does not say of which data it is; clean the data again")
    source = training_pairs(load_settings(recipe, str(folder / NOTE)).run)
    pictures = PictureData.noted(note.get("pictures"), str(folder / NOTE))
    return pictures.beside(source) if pictures else source
