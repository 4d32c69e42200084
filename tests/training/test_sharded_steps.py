"""Steps on two ranks, DDP and FSDP2: recomputed activations change no bit, a bad number found late leaves what one that
is found at once does."""

from __future__ import annotations

from pathlib import Path

import pytest
from started_once import run_ranks


@pytest.mark.slow
def test_two_ranks():
    run_ranks(2, Path(__file__).parent / "two_sharded_steps.py", [])
