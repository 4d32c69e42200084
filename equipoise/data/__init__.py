"""Records to batches: sources of image-text pairs by name, decoding, augmentation, tokens, order."""

from __future__ import annotations

from typing import Protocol

from equipoise.data.features import FeatureFiles
from equipoise.data.few_shot import FewShotData
from equipoise.data.files import ClassShards, Folders, Mixture, PictureFolder, Shards, Table
from equipoise.data.modalities import ModalFiles, ModalWorlds
from equipoise.data.scenes import Scenes
from equipoise.data.source import Source
from equipoise.data.tones import Tones


class SourceConfig(Protocol):
    """The settings of a source."""

    def build(self, split: str) -> Source: ...


SOURCES: dict[str, type[SourceConfig]] = {
    "features": FeatureFiles.Config,
    "scenes": Scenes.Config,
    "shards": Shards,
    "table": Table,
    "folders": Folders,
    "pictures": PictureFolder,
    "class_shards": ClassShards,
    "mixture": Mixture.Config,
    "few_shot": FewShotData,
    "modalities": ModalFiles,
    "modal_worlds": ModalWorlds.Config,
    "tones": Tones.Config,
}

__all__ = ["SOURCES", "Scenes", "SourceConfig"]
