"""Columns that pass round a ring of ranks: memory of two parts, whatever the number of ranks.

    step k     rank r has the columns of rank r - k, and visits them with its rows;
               meanwhile those of rank r - k - 1 are on their way from its left neighbour to it
    after it   what the rows made of the columns is merged with what came along from the ranks before, and goes on to
               the right neighbour; after the last step that is the rank whose columns they are

Every rank sends a part of the points `world` - 1 times and results `world` times: as much as to gather and to sum them,
but nobody ever holds them all. The loss of SigLIP passes points round in the same way (Zhai et al. 2023, §3.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from equipoise.forms.form import Reduction
from equipoise.kernels.sharding.columns import Visit
from equipoise.kernels.sharding.shards import ShardedColumns


class Ring(ShardedColumns):
    def round(
        self, points: Sequence[Tensor], numbers: Sequence[Tensor], visit: Visit, rules: Sequence[Reduction]
    ) -> list[Tensor]:
        here = [tensor.detach().contiguous() for tensor in (*points, *numbers)]
        found: _OnTheWay | None = None
        for step in range(self.world):
            owner, following = (self.rank - step) % self.world, (self.rank - step - 1) % self.world
            coming = self._pass_on(here, following) if step < self.world - 1 else None
            made = visit(self.starts[owner], here)
            if found is not None:
                pairs = zip(rules, found.arrived(), made, strict=True)
                made = [rule.merge(before, new) for rule, before, new in pairs]
            found = self._pass_on(made, following)
            here = coming.arrived() if coming is not None else []
        assert found is not None
        return found.arrived()

    def _pass_on(self, tensors: list[Tensor], owner: int) -> _OnTheWay:
        """To the right; from the left come the like for the columns of `owner`."""
        right, left = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        expected = [tensor.new_empty(self.sizes[owner], *tensor.shape[1:]) for tensor in tensors]
        sent = [dist.P2POp(dist.isend, tensor, right) for tensor in tensors]
        received = [dist.P2POp(dist.irecv, tensor, left) for tensor in expected]
        return _OnTheWay(tensors, expected, dist.batch_isend_irecv([*sent, *received]) if tensors else [])


class _OnTheWay:
    """Tensors that travel: those sent must live until they have left."""

    def __init__(self, sent: list[Tensor], expected: list[Tensor], work: list[dist.Work]):
        self.sent, self.expected, self.work = sent, expected, work

    def arrived(self) -> list[Tensor]:
        for work in self.work:
            work.wait()
        self.sent, self.work = [], []
        return self.expected
