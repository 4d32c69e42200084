"""Samples of several named modalities: read from files, or made up with a known truth."""

from __future__ import annotations

from equipoise.data.modalities.files import ModalFiles
from equipoise.data.modalities.world import ModalWorlds

__all__ = ["ModalFiles", "ModalWorlds"]
