"""What an experiment looks at: a model, and the data it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.config import load_stored
from equipoise.data.files.infer_format import looks_like_data
from equipoise.data.source import Source
from equipoise.models.folder import CONFIG, model_folder
from equipoise.models.model import Model
from equipoise.workflows import load
from equipoise.workflows.embed.encoders import find_source, placed


@dataclass(frozen=True)
class Subject:
    path: Path  # the model's
    data: str = ""  # a recipe or files; empty: what the model was trained on
    overrides: Sequence[str] = ()
    split: str = "train"
    seed: int = 0

    def model(self) -> Model:
        return placed(load(self.path))

    def source(self) -> Source:
        if self.data:
            return find_source(self.data, self.overrides, self.split)[0]
        return load_stored(model_folder(self.path) / CONFIG, self.overrides).run.data.build(self.split)

    @property
    def shown(self) -> str:
        """The data in a few words."""
        if self.data and looks_like_data(self.data):
            return "/".join(Path(self.data).parts[-2:])
        return f"{self.data or 'its own data'}, {self.split}"

    def facts(self) -> dict[str, object]:
        return {"model": str(self.path), "data": self.shown, "set": list(self.overrides), "seed": self.seed}
