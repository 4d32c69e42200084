"""Paths on the command line."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from equipoise.io.results_folder import Place, StoreFolder
from equipoise.types import UserError

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def local_path(text: str) -> Path:
    """A path on this machine's disk; an address would become a folder called "s3:"."""
    if ADDRESS.match(text):
        raise argparse.ArgumentTypeError(
            f"{text} is an address, and this must be a path on a disk of this machine, a mounted one maybe; data is "
            "read from addresses, and `embed`, `regions` and `data prepare` write to them"
        )
    return Path(text)


def folder_or_store(text: str) -> Place:
    """A folder on a disk, or an address in a store."""
    try:
        return StoreFolder(text) if ADDRESS.match(text) else Path(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
