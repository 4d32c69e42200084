"""`equipoise serve` as a page has it typed, until it says where it is: it would not end by itself."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def serve(folder: Path, words: Sequence[str], known: Mapping[str, str]) -> None:
    """Run the words in a folder, with these variables, on a port that is free."""
    process = subprocess.Popen(
        [*words, "--port", "0"], cwd=folder, env=known, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "http://" in line:
                break
        assert said, "it said nothing"
        assert "http://" in said[-1], "".join(said)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
