"""The process group of the ranks that `torchrun` started, which ends with one sentence whatever goes wrong on any.

A rank that fails leaves; the others then lose their connection to it, or time out, and leave too. The first to fail
prints its error and the others are silent: a counter in the store of the group says who was first.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from equipoise.training.distributed.agreement import environment_facts, require_agreement
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.torch_private import default_store, set_group_timeout
from equipoise.types import UserError

RESTARTS = "TORCHELASTIC_RESTART_COUNT"  # a variable that torchrun sets
SILENT_EXIT = 2  # exit code of a rank that prints nothing, because another has printed what happened
WARNED_BY_ALL = "skipped "  # start of a warning that every rank prints: each sees the bad records of its own share
SIGNS_OF_A_LOST_RANK = ("gloo", "NCCL", "onnection", "Timed out", "timed out", "Broken pipe")


@contextmanager
def process_group() -> Iterator[Ranks]:
    """The ranks that `torchrun` started, connected; one rank without it. Raises UserError where their versions or
    devices differ."""
    if launched_processes() == 1:
        yield Ranks()
        return
    ranks = _join()
    try:
        with warnings.catch_warnings():
            if not ranks.is_main:
                warnings.simplefilter("ignore")
                warnings.filterwarnings("default", message=WARNED_BY_ALL)
            require_agreement(ranks, environment_facts)
            yield ranks
    except (Exception, KeyboardInterrupt) as error:
        ignore_sigterm()
        if not _is_first_to_fail():
            raise SystemExit(SILENT_EXIT) from error
        if _lost_rank(error):
            raise UserError(_about_lost_rank(ranks, error)) from error
        raise
    dist.destroy_process_group()


def launched_processes() -> int:
    """The number of processes that torchrun started together with this one; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def require_resume(resume: bool) -> None:
    """Raise UserError where torchrun started a command again that would begin anew (`--max-restarts`)."""
    if os.environ.get(RESTARTS, "0") != "0" and not resume:
        raise UserError(
            "torchrun started this again after a process had failed, and nothing says to go on with the run; give "
            "--out FOLDER --resume with --max-restarts"
        )


def set_timeout(ranks: Ranks, seconds: float) -> None:
    """Set how long this process waits for another before the run ends."""
    if ranks.world > 1:
        set_group_timeout(seconds)


def ignore_sigterm() -> None:
    """Outlive torchrun, which ends all ranks as soon as one fails: this one has to print or save before it goes."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _join() -> Ranks:
    has_gpu = torch.cuda.is_available()
    try:
        if has_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        store, rank, world = next(dist.rendezvous("env://", timeout=default_pg_timeout))
        # torchrun keeps one store through its restarts, with the addresses of processes that are gone
        store = dist.PrefixStore(f"equipoise/attempt-{os.environ.get(RESTARTS, '0')}", store)
        backend = "cpu:gloo,cuda:nccl" if has_gpu else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=world)
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the processes of this run cannot be joined: {reason}; start them with torchrun") from error
    return Ranks(dist.get_rank(), dist.get_world_size())


def _is_first_to_fail() -> bool:
    """Whether this rank is the first to fail in this attempt (torchrun may start the ranks several times)."""
    attempt = os.environ.get(RESTARTS, "0")
    try:
        return default_store().add(f"equipoise/told/{attempt}", 1) == 1
    except RuntimeError:  # the store went with the rank that kept it
        return True


def _lost_rank(error: BaseException) -> bool:
    by_message = isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS_OF_A_LOST_RANK)
    return by_message or isinstance(error, dist.DistError)


def _about_lost_rank(ranks: Ranks, error: BaseException) -> str:
    reason = str(error).splitlines()[0].split("] ")[-1].replace("GLHF!", "").rstrip(". ")  # gloo's good wishes
    return (
        f"another process of this run died or kept rank {ranks.rank} of {ranks.world} waiting for too long "
        f"({reason}); see what it said last, and resume the run"
    )
