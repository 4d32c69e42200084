"""What each of two processes does in test_ranks_run.py: runs left alone, stopped on one rank and resumed, all in one
start of the processes."""

from __future__ import annotations

import signal
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from small_run import FULL, NEVER, ROOMY, SmallRun, sent, set_disk, small_run

from equipoise.training.distributed.process_group import process_group
from equipoise.training.distributed.ranks import Ranks
from equipoise.types import UserError

WITHOUT_DRAWS = "image.patch_dropout=0"


def same_after_a_stop(out: Path, parallel: str, exchange: str, ranks: Ranks) -> None:
    ways = f"training.parallel={parallel}", f"training.exchange={exchange}"
    assert small_run(out / parallel / "alone", *ways, ranks=ranks).go().step == 8
    run = small_run(out / parallel / "stopped", *ways, ranks=ranks)
    stopped = run.go({5: sent(signal.SIGTERM)} if ranks.rank == 1 else NEVER)
    assert (stopped.step, stopped.signal) == (5, signal.SIGTERM)
    waiting = run.go(in_data={7: sent(signal.SIGINT)} if ranks.rank == 1 else NEVER, resume=True)
    assert (waiting.step, waiting.signal) == (6, signal.SIGINT)
    assert run.go(resume=True).step == 8


def half_a_run(out: Path, ranks: Ranks) -> None:
    run = small_run(out / "half", "training.parallel=fsdp", WITHOUT_DRAWS, ranks=ranks)
    assert run.go({5: sent(signal.SIGTERM)}).step == 5


def on_from_one(out: Path, ranks: Ranks) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = small_run(out / "from one", "training.parallel=fsdp", WITHOUT_DRAWS, ranks=ranks)
        assert run.go(resume=True).step == 8
    assert any("saved by 1 processes and goes on with 2" in str(warning.message) for warning in caught)


def compiled(out: Path, parallel: str, ranks: Ranks) -> None:
    """Traced and cut as always, without machine code, which would take minutes."""
    changes = f"training.parallel={parallel}", "training.compile=true", "training.evaluate_every=0", WITHOUT_DRAWS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
        assert small_run(out / f"compiled {parallel}", *changes, ranks=ranks).go().step == 8


def disk_full_on_one_rank(out: Path, ranks: Ranks) -> None:
    run: SmallRun = small_run(out / "full", "training.parallel=fsdp", "training.evaluate_every=0", ranks=ranks)
    mine = {2: lambda: set_disk(FULL), 4: lambda: set_disk(ROOMY)} if ranks.rank == 1 else NEVER
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run.go(mine)
    failed = run.folder / "checkpoints" / "step-00000003"
    sentences = [str(warning.message) for warning in caught]
    assert any(sentence.startswith(f"cannot write {failed}: ") for sentence in sentences), sentences
    assert not failed.exists()


def refused_on_one_rank(ranks: Ranks) -> None:
    """A mistake on one rank is raised on all, whoever made it, and they are still together afterwards."""

    def refuse() -> None:
        raise UserError("this rank's disk is gone")

    for ask in (lambda: ranks.on_each(refuse if ranks.rank == 1 else lambda: None), lambda: ranks.on_main(refuse)):
        with pytest.raises(UserError, match="this rank's disk is gone"):
            ask()


torch.set_num_threads(1)
with process_group() as ranks:
    here = Path(sys.argv[1])
    for parallel, exchange in (("ddp", "ring"), ("fsdp", "gathered")):
        same_after_a_stop(here, parallel, exchange, ranks)
        compiled(here, parallel, ranks)
    half_a_run(here, ranks)
    on_from_one(here, ranks)
    disk_full_on_one_rank(here, ranks)
    refused_on_one_rank(ranks)
