"""Opening an index by where it is."""

from __future__ import annotations

from pathlib import Path

from equipoise.index.folder import FolderIndex
from equipoise.index.index import Index


def open_index(where: str | Path) -> Index:
    """The index in a folder, or at an address that begins with postgresql://. Its files are compared with their
    digests."""
    return FolderIndex(Path(where))
