"""Whether the model waits for its batches, told once, early in a run."""

from __future__ import annotations

import os

import torch

from equipoise.data.batches import Batches
from equipoise.data.source import can_crop
from equipoise.training.logging.throughput import Throughput

SKIPPED, LOOKED = 10, 40  # steps: the first ones compile, fill caches and wait for the first batches
MUCH = 0.3  # of the time
KNOWN = ("cpu", "cuda")  # devices of which it is known whether they compute meanwhile


class FeedWatch:
    """Counts the seconds of waiting in which nothing was computed either: a GPU may be busy with the step before."""

    _told = False

    def __init__(self, batches: Batches, clock: Throughput, device: torch.device):
        self.batches, self.clock, self.device = batches, clock, device
        self.steps, self._idle, self._waited, self._start = 0, 0.0, 0.0, 0.0
        self._last_step: torch.cuda.Event | None = None

    def batch_came(self) -> None:
        waited, self._waited = self.batches.waited - self._waited, self.batches.waited
        if self._last_step is None or self._last_step.query():
            self._idle += waited

    def step_done(self) -> None:
        self.steps += 1
        if self.steps > SKIPPED + LOOKED:
            return
        if self.device.type == "cuda":
            self._last_step = torch.cuda.Event()
            self._last_step.record(torch.cuda.current_stream(self.device))
        if self.steps == SKIPPED:
            self._idle, self._start = 0.0, self.clock.seconds()

    def sentence(self) -> str:
        """What to say after this step: mostly nothing, and in a process that trains several models once."""
        if self.steps != SKIPPED + LOOKED or FeedWatch._told:
            return ""
        share = self._idle / max(1e-9, self.clock.seconds() - self._start)
        advice = self._advice() if share >= MUCH else []
        if not advice:
            return ""
        FeedWatch._told = True
        return f"For {min(share, 1):.0%} of the time training waits for its batches. {' '.join(advice)}"

    def _advice(self) -> list[str]:
        advice, workers, cores = [], self.batches.workers, os.cpu_count() or 1
        if self.device.type not in KNOWN:
            return []
        if self.device.type == "cuda" and workers < cores:
            made_by = f"{workers} processes make" if workers else "a thread makes"
            advice.append(f"Set training.workers: {made_by} them now, and there are {cores} cores.")
        if can_crop(self.batches.source):
            advice.append("`equipoise data prepare` makes picture files smaller, which are read faster then.")
        return advice
