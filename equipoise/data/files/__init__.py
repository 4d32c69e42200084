"""Sources that read files: shards, tables, folders, and mixtures of them."""

from __future__ import annotations

from equipoise.data.files.image_folder import Folders
from equipoise.data.files.mixture import Mixture
from equipoise.data.files.picture_folder import PictureFolder
from equipoise.data.files.table import Table
from equipoise.data.files.webdataset import Shards
from equipoise.data.files.webdataset_classes import ClassShards

__all__ = ["ClassShards", "Folders", "Mixture", "PictureFolder", "Shards", "Table"]
