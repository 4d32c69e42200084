"""`equipoise serve` as a page writes it: started, waited for until it says where it listens, and ended by Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path


def serve(folder: Path, words: list[str], known: dict[str, str]) -> None:
    """Run a command, Python's words before its own, in `folder` until it says where it listens: any free port."""
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
        assert "http://" in said[-1], "".join(said)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
