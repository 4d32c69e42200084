"""What is to be audited: the training data of a recipe, or files, judged by models of a recipe."""

from __future__ import annotations

import json
from collections.abc import Sequence

from equipoise.config import Loaded, load_run
from equipoise.data import SOURCES
from equipoise.data.files.infer_format import looks_like_data, settings_for


def find(data: str, recipe: str, overrides: Sequence[str]) -> Loaded:
    """The run whose data to judge and whose settings to train judges with."""
    if not looks_like_data(data):
        return load_run(data, overrides)
    kind = next(name for name, source in SOURCES.items() if source is type(settings_for(data)))
    # all of it is judged, so nothing is held out for validation
    files = {"name": kind, "train": data, "validation": data, "test": ""}
    return load_run(recipe, [*(f"data.{key}={json.dumps(value)}" for key, value in files.items()), *overrides])
