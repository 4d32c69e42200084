"""An objective that fails on the second rank in its third step, for test_ranks_run.py."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from equipoise.objectives import CLIP
from equipoise.types import Loss, UserError

STEPS = count(1)


def refuse() -> None:
    raise UserError("the second rank has had enough")


WAYS = {
    "refuse": refuse,
    "die": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stall": lambda: time.sleep(600),
}


@dataclass(frozen=True)
class Failing(CLIP):
    how: str = field(default="refuse")

    def loss(self, *arguments: Any, **named: Any) -> Loss:
        if next(STEPS) == 3 and os.environ["RANK"] == "1":
            WAYS[self.how]()
        return super().loss(*arguments, **named)
