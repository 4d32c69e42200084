"""Sources that read files: shards, tables, folders, and mixtures of them."""

from __future__ import annotations

from equipoise.data.files.class_shards import ClassShards
from equipoise.data.files.folders import Folders
from equipoise.data.files.mixture import Mixture
from equipoise.data.files.shards import Shards
from equipoise.data.files.table import Table

__all__ = ["ClassShards", "Folders", "Mixture", "Shards", "Table"]
