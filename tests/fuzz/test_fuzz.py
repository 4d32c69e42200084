"""A slice of `make fuzz`: the kept cases, and a few hundred random ones of every kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_damaged_input_is_told_in_a_sentence():
    """Also fails where a case of known.json has been mended, so that the list only shrinks."""
    command = [sys.executable, str(Path(__file__).parent), "--corpus", "--cases", "210", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
