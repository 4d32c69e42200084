"""Signs of life of long work on the first rank: given while it lasts, waited for, and missed."""

from __future__ import annotations

import threading
import time

import pytest
import torch.distributed as dist

from equipoise.training.distributed import heartbeat
from equipoise.training.distributed.heartbeat import DONE, on_main_with_heartbeat
from equipoise.training.distributed.ranks import Ranks
from equipoise.types import UserError


@pytest.fixture
def store(monkeypatch) -> dist.Store:
    monkeypatch.setattr(heartbeat, "INTERVAL", 0.01)
    return dist.HashStore()


def test_one_process_simply_works():
    done = []
    on_main_with_heartbeat(Ranks(), lambda: done.append("it"), 1.0)
    assert done == ["it"]


def test_signs_of_life_are_given_while_it_works_and_the_end_is_told(store):
    with heartbeat._beating(store, "work"):
        deadline = time.monotonic() + 10
        while store.add("work", 0) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert store.add("work", 0) > DONE


def test_the_end_is_told_where_the_work_fails(store):
    with pytest.raises(ValueError, match="no"), heartbeat._beating(store, "work"):
        raise ValueError("no")
    assert store.add("work", 0) >= DONE


def test_others_wait_for_longer_than_their_patience_while_there_are_signs_of_life(store):
    def work() -> None:
        with heartbeat._beating(store, "work"):
            time.sleep(1.5)

    thread, begun = threading.Thread(target=work), time.monotonic()
    thread.start()
    heartbeat._wait(store, "work", patience=0.75)
    assert time.monotonic() - begun >= 1.4
    thread.join()


def test_a_first_process_that_falls_silent_is_told_of(store):
    store.add("work", 7)
    with pytest.raises(UserError, match="no sign of life"):
        heartbeat._wait(store, "work", patience=0.05)
