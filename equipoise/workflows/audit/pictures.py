"""`--pictures DATA` of `audit` and `clean`: the pictures that features were made of, for what people look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from equipoise.config import load_run, load_settings
from equipoise.data.features.pictured import PicturedFeatures, matching_pictures, pictures_of
from equipoise.data.source import Source
from equipoise.settings.overrides import command_line
from equipoise.types import UserError
from equipoise.workflows.own_files import data_layer
from equipoise.workflows.subject import names_files


@dataclass(frozen=True)
class PictureData:
    """Where the pictures lie: a table [data], and the split of it. It is kept in the note of a keep file."""

    name: str  # as the command said
    data: Mapping[str, Any]
    split: str

    @classmethod
    def named(cls, name: str) -> PictureData:
        """Files, all of them, or the training data of a recipe."""
        if names_files(name):
            layer = data_layer(name, command_line((), source="--set"), "whole", captions=False)
            return cls(name, layer.values["data"], "test")
        return cls(name, load_run(name).table["data"], "train")

    @classmethod
    def noted(cls, note: Any, where: str) -> PictureData | None:
        """What a note says; None where it names no pictures."""
        if note is None:
            return None
        try:
            return cls(str(note["name"]), dict(note["data"]), str(note["split"]))
        except (TypeError, KeyError, ValueError) as error:
            raise UserError(f"{where} does not say where the pictures lie; clean the data again") from error

    def note(self) -> dict[str, Any]:
        return {"name": self.name, "data": dict(self.data), "split": self.split}

    def beside(self, source: Source) -> PicturedFeatures:
        """A source of features with the pictures of its records."""
        return PicturedFeatures(source, pictures_of(source, self.settings.build(self.split), self.name))

    def matching(self, source: Source) -> Source:
        """The records of the pictures' own data that are those of a source of features, in its order."""
        return matching_pictures(source, self.settings.build(self.split), self.name)

    @property
    def settings(self) -> Any:
        """Those of the data that the pictures are read from."""
        return load_settings({"data": dict(self.data)}, f"--pictures {self.name}").run.data
