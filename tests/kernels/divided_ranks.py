"""What each process does in test_divided.py: contrasts of its part of a batch, beside the same of the whole batch, which
every process computes by itself. The first writes down how far they are apart."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from test_contrast import COMBINATIONS, batch_of, parts, points
from torch import Tensor

from equipoise.kernels import contrast
from equipoise.kernels.divided import divided
from equipoise.types import Embeddings

SIZES = {2: (5, 6), 3: (4, 3, 5)}


def loss_and_grads(tensors: list[Tensor], t: Tensor, n: slice | None, **kwargs) -> list[Tensor]:
    """The loss, and its gradients by u, v, r, a and t, of a part of the batch or of all of it."""
    mine = [x if n is None else x[n] for x in tensors]
    leaves = [x.detach().clone().requires_grad_() for x in (*mine, t)]
    u, v, r, a, t = leaves
    batch = batch_of(len(tensors[0]))
    batch = batch if n is None else batch.map(lambda x: x[n])
    space, target = kwargs["space"], kwargs.pop("target")
    target = target.bind(Embeddings(u, v, r, a), batch, log_scale=t, space=space)
    loss = contrast(u, v, log_scale=t, target=target, **kwargs)
    grads = torch.autograd.grad(2.5 * loss, leaves, allow_unused=True)
    return [loss.detach(), *(g for g in grads if g is not None)]


def difference(way: str, space: str, target: str, form: str) -> float:
    """The largest difference between what this rank finds of its part and what is true of the whole."""
    rank, world = dist.get_rank(), dist.get_world_size()
    sizes = SIZES[world]
    n, start = sum(sizes), sum(sizes[:rank])
    mine = slice(start, start + sizes[rank])
    tensors, t = [points(space, n, seed) for seed in range(1, 5)], torch.tensor(1.3, dtype=torch.float64)
    whole = loss_and_grads(tensors, t, None, impl="eager", **parts(space, target, form))
    with divided(way, sizes[rank]):
        found = loss_and_grads(tensors, t, mine, impl="tiled", tile=2, **parts(space, target, form))
    of_points = [world * g[mine] for g in whole[1:-1]]
    worst = 0.0
    for got, true in zip(found, [whole[0], *of_points, whole[-1]], strict=True):
        worst = max(worst, float((got - true).abs().max() / max(1.0, float(true.abs().max()))))
    return worst


if __name__ == "__main__":
    torch.set_num_threads(1)
    store, rank, world, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    found = {f"{way}-{'-'.join(case)}": difference(way, *case) for way in ("ring", "gathered") for case in COMBINATIONS}
    (out / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()
