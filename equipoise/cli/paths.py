"""Paths on the command line."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def local_path(text: str) -> Path:
    """A path on this machine's disk; an address would become a folder called "s3:"."""
    if ADDRESS.match(text):
        raise argparse.ArgumentTypeError(
            f"{text} is an address, and this must be a path on a disk of this machine, a mounted one maybe; data alone "
            "is read from addresses"
        )
    return Path(text)
