"""What is asked of `equipoise serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from equipoise.serve.limits import Limits


@dataclass(frozen=True)
class ServeRequest:
    run: Path
    index: str = ""  # a folder or an address of PostgreSQL; empty: the run's own validation pictures, in memory
    suspects: Path | None = None  # of `equipoise clean`; None: those of the run, where it has some
    beside: Path | None = None  # a second model to compare with
    beside_index: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    hosts: tuple[str, ...] = ()  # further names of this service
    read_only: bool = False
    limits: Limits = Limits()
    rate: int | None = None
