"""Round a ring, points and results travel while blocks are compared: counted by a clock that only work moves.

    T = W max(c, x) + min(c, x)        W ranks, c to compare a block, x for tensors to reach the next rank

One after the other it would be W c + (2 W - 1) x. All ranks do the same, so one of them tells the time of all; that
they exchange the right things is held by three real processes in test_sharding.py.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from equipoise.forms.form import SUM
from equipoise.kernels.sharding import ring
from equipoise.kernels.sharding.ring import Ring


class Network:
    """Tensors that are sent arrive `seconds` later, and who waits for them waits until then."""

    def __init__(self, seconds: float):
        self.seconds, self.now = seconds, 0.0
        self.waited: list[float] = []

    def batch_isend_irecv(self, _operations: list) -> list:
        arrival = self.now + self.seconds
        return [SimpleNamespace(wait=lambda: self._wait_until(arrival))]

    def _wait_until(self, arrival: float) -> None:
        self.waited.append(max(0.0, arrival - self.now))
        self.now = max(self.now, arrival)

    P2POp = isend = irecv = staticmethod(lambda *_: None)


@pytest.mark.parametrize("ranks", [2, 5])
@pytest.mark.parametrize(("compare", "travel"), [(3.0, 1.0), (2.0, 2.0), (1.0, 4.0)])
def test_time_is_that_of_the_longer_of_comparing_and_travelling(ranks, compare, travel, monkeypatch):
    network = Network(travel)
    monkeypatch.setattr(ring, "dist", network)

    def compared(_first, shard):
        network.now += compare
        return [shard[0].sum(dim=1)]

    columns = Ring(0, (4,) * ranks)
    found = columns.for_each_shard([torch.ones(4, 3)], [], compared, [SUM])
    assert [tensor.shape for tensor in found] == [(4,)]
    assert network.now == ranks * max(compare, travel) + min(compare, travel)
    assert len(network.waited) == 2 * ranks - 1
    if travel <= compare:  # nothing is waited for but the last results, which nothing is left to do beside
        assert network.waited[:-1] == [0.0] * (2 * ranks - 2)
