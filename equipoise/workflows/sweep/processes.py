"""Trials as processes of their own: one that fails, or is killed for want of memory, takes no other with it.

Each is an `equipoise train ... --resume`, so that a trial which was stopped goes on from its checkpoint. A stop of the
sweep is passed on once, for a second signal would end a run before it has saved; on Linux the system passes it on
where the sweep itself was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from equipoise.io.folder_lock import locked
from equipoise.types import UserError
from equipoise.workflows.sweep.grid import Trial

LOOK, PATIENCE = 0.1, 60.0  # seconds between looks at the processes; that an earlier one may take to save and leave
# The command line in a process that the system sends a SIGTERM when its parent has died (PR_SET_PDEATHSIG is 1).
CHILD = """import ctypes, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
from equipoise.cli import main
sys.exit(main())"""


@dataclass
class Ended:
    trial: Trial
    status: int  # as the process left it; negative: the signal that killed it
    seconds: float
    message: str  # why it failed; empty where it did not


@dataclass
class _Running:
    trial: Trial
    process: subprocess.Popen[bytes]
    log: Path
    since: float

    def ended(self) -> Ended | None:
        status = self.process.poll()
        if status is None:
            return None
        return Ended(self.trial, status, time.monotonic() - self.since, last_message(status, self.log))


def run_trials(
    trials: Sequence[Trial], command: Callable[[Trial], list[str]], folder: Callable[[Trial], Path], jobs: int
) -> Iterator[Ended]:
    """Run `jobs` trials at a time; yields each as it ends. Those that run are told to stop if the caller stops."""
    waiting, running = list(trials), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                trial = waiting.pop(0)
                running.append(_start(trial, command(trial), folder(trial), jobs))
            for one in list(running):
                if ended := one.ended():
                    running.remove(one)
                    yield ended
            time.sleep(LOOK)
    finally:
        _stop(running)


def _start(trial: Trial, command: list[str], folder: Path, jobs: int) -> _Running:
    _wait_for(folder)
    log = folder.with_name(f"{folder.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))} if jobs > 1 else {}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, *command], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
            start_new_session=True, env={**threads, **os.environ},
        )  # fmt: skip
    return _Running(trial, process, log, time.monotonic())


def _wait_for(folder: Path) -> None:
    """Wait for a trial that a killed sweep left behind, and that is still saving itself."""
    until = time.monotonic() + PATIENCE
    while folder.exists() and time.monotonic() < until:
        try:
            with locked(folder):
                return
        except UserError:
            time.sleep(1)


def _stop(running: Sequence[_Running]) -> None:
    for one in running:
        with suppress(OSError):
            one.process.send_signal(signal.SIGTERM)
    for one in running:
        one.process.wait()


def last_message(status: int, log: Path) -> str:
    """The sentence that a failed run ended with."""
    if not status:
        return ""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("equipoise: ") if lines else f"ended with status {status}"
