"""A claim small enough to be run in a test, and a script that runs it."""

from __future__ import annotations

import sys
from pathlib import Path

from equipoise.claims import CLAIMS
from equipoise.claims.claim import GPU, Claim, Row
from equipoise.claims.rule import ahead

FEW = ("training.steps=2", "training.warmup_steps=1", "training.evaluate_every=2", "training.batch_size=8")
TINY = (*FEW, "data.train_size=24", "data.validation_size=8", "data.test_size=8", "image.layers=1", "text.layers=1",
        "data.noise.shuffled=0.5", "training.log_every=1", "training.loggers=[]")  # fmt: skip
RATES = (("training.learning_rate=1e-3",), ("training.learning_rate=2e-3",))
BASE = Row("base", "demo", TINY, sweep=RATES)
CLAIM = Claim(
    "", "a test", "The idea is better.", rows=(BASE, BASE.plus("idea", "space.dim=32")), parts=(ahead("idea", "base"),)
)


def run(
    out: Path, jobs: int = 1, seeds: int = 2, minutes: float | None = None, names: tuple[str, ...] = ("tiny",)
) -> int:
    from equipoise.workflows.claims.run import run_claims

    CLAIMS["tiny"] = CLAIM
    try:
        return run_claims(names, GPU, seeds, jobs, out, minutes, "abc", "cpu")
    finally:
        CLAIMS.pop("tiny", None)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
