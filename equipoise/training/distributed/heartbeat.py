"""A heartbeat for work of the first rank that takes longer than a collective may wait, such as judging pairs.

The others watch the heartbeat in the store of the process group. They are in no collective meanwhile, so none times
out, and a first rank that ends, fails, is stopped or falls silent ends them too.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch.distributed as dist

from equipoise.kernels.sharding.gather import alone
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.torch_private import default_store
from equipoise.types import UserError

INTERVAL = 1.0  # seconds between two heartbeats
DONE = 1 << 40  # added to their number at the end

_numbers = itertools.count()  # of pieces of work, which all ranks begin in the same order


def on_main_with_heartbeat(ranks: Ranks, work: Callable[[], None], patience: float) -> None:
    """Do `work` on the first rank alone, however long it takes; the others wait, and raise UserError where it gives no
    sign of life for `patience` seconds. A UserError in it, or a KeyboardInterrupt on any rank, is raised on all."""
    if ranks.world == 1:
        work()
        return
    store, key = default_store(), f"equipoise/heartbeat/{next(_numbers)}"
    stopped: KeyboardInterrupt | None = None
    failed: UserError | None = None
    try:
        if ranks.is_main:
            with _beating(store, key), alone():
                work()
        else:
            _wait(store, key, patience)
    except KeyboardInterrupt as error:
        stopped = error
        if not ranks.is_main:
            _wait(store, key, patience)
    except UserError as error:
        if not ranks.is_main:  # it waits for nobody any more
            raise
        failed = error
    if ranks.highest(bool(stopped))[0]:
        raise stopped or KeyboardInterrupt
    ranks.on_each(lambda: _raise(failed))


def _raise(error: UserError | None) -> None:
    if error:
        raise error


@contextmanager
def _beating(store: dist.Store, key: str) -> Iterator[None]:
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(INTERVAL):
            try:
                store.add(key, 1)
            except RuntimeError:  # it went with the launcher, and nothing else would end this process
                os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        store.add(key, DONE)


def _wait(store: dist.Store, key: str, patience: float) -> None:
    beats, since = -1, time.monotonic()
    while (now := store.add(key, 0)) < DONE:
        if now != beats:
            beats, since = now, time.monotonic()
        elif time.monotonic() - since > patience:
            raise UserError(
                f"the first process of this run has given no sign of life for {patience:.0f} s; see what it said last, "
                "and resume the run"
            )
        time.sleep(INTERVAL)
