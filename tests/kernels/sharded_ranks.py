"""What each process does in test_sharding.py: contrasts of its part of a batch, beside those of the whole batch, which
every process computes by itself, and writes down how far they are apart; and how much memory they take."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.distributed as dist
from every_space import NAMES, space_named
from test_contrast import batch_of, makes_sense, parts, points
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from equipoise.data.source import HAS
from equipoise.forms import FORMS, CrossEntropy, Sigmoid
from equipoise.kernels import contrast
from equipoise.kernels.sharding.context import sharded_batch
from equipoise.kernels.sharding.gather import gather_points
from equipoise.objectives.consistency import consistency
from equipoise.spaces import Sphere
from equipoise.targets import OneHot
from equipoise.targets.weighted import WeightedPairs
from equipoise.training.distributed.process_group import process_group
from equipoise.types import Embeddings

SIZES = (2, 3, 2)  # pairs on each rank
# rounds for normalizers, too, and guides that travel
SOFT = [("sphere", "softened", form) for form in FORMS if makes_sense("softened", form)]
OFTEN = ("cross_entropy", "sigmoid", "kl")
HARD = [("sphere", target, form) for target in ("duplicates", "smoothed") for form in OFTEN]
HARD.append(("sphere", "duplicates", "active_complementary"))
MORE = (("one_hot", "cross_entropy"), ("softened", "symmetric_kl"))
ELSEWHERE = [(name, *case) for name in NAMES[1:] for case in MORE]
WAYS = {"ring": [*SOFT, *HARD], "gathered": [*SOFT[::3], *HARD[::3], *ELSEWHERE]}
CASES = [(way, *case) for way, cases in WAYS.items() for case in cases]
WEIGHED = [
    ("ring", "sphere", "one_hot", "cross_entropy"),
    ("gathered", "sphere", "one_hot", "sigmoid"),
    ("ring", *SOFT[1]),
]
CONSISTENT = [(way, name, weighted) for way in ("ring", "gathered") for name in NAMES for weighted in (False, True)]
WEIGHTS = torch.tensor([0.9, 0.0, 0.4, 1.0, 0.25, 0.6, 0.1], dtype=torch.float64)
EACH, DIM, TILE = 256, 64, 32  # pairs of every rank, where memory is measured


def own_part() -> slice:
    rank = dist.get_rank()
    return slice(sum(SIZES[:rank]), sum(SIZES[: rank + 1]))


def loss_and_grads(tensors: list[Tensor], t: Tensor, n: slice | None, **kwargs) -> list[Tensor]:
    """The loss, and its gradients by u, v, r, a and t, of a part of the batch or of all of it."""
    mine = [x if n is None else x[n] for x in tensors]
    leaves = [x.detach().clone().requires_grad_() for x in (*mine, t)]
    u, v, r, a, t = leaves
    batch = batch_of(len(tensors[0]))
    if kwargs.pop("gaps", False):  # one sample of the second rank has no regions, and the guide knows nothing of it
        batch = replace(batch, side={**batch.side, HAS + "regions": torch.arange(len(batch)) != SIZES[0]})
    batch = batch if n is None else batch.map(lambda x: x[n])
    weighted, space, target = kwargs.pop("weighted", False), kwargs["space"], kwargs.pop("target")
    target = target.bind(Embeddings(u, v, r, a), batch, log_scale=t, space=space)
    target = WeightedPairs(target, WEIGHTS if n is None else WEIGHTS[n]) if weighted else target
    loss = contrast(u, v, log_scale=t, target=target, **kwargs)
    grads = torch.autograd.grad(2.5 * loss, leaves, allow_unused=True)  # 2.5: the upstream gradient must be used
    return [loss.detach(), *(g for g in grads if g is not None)]


def difference(way: str, space: str, target: str, form: str, gaps: bool = False, weighted: bool = False) -> float:
    """The largest difference between what this rank finds of its part and what is true of the whole."""
    mine = own_part()
    tensors, t = [points(space, sum(SIZES), seed) for seed in range(1, 5)], torch.tensor(1.3, dtype=torch.float64)
    more = {"gaps": gaps, "weighted": weighted, **parts(space, target, form)}
    whole = loss_and_grads(tensors, t, None, impl="eager", **more)
    with sharded_batch(way, mine.stop - mine.start):
        found = loss_and_grads(tensors, t, mine, impl="tiled", tile=2, **more)
    of_points = [len(SIZES) * g[mine] for g in whole[1:-1]]
    return furthest(found, [whole[0], *of_points, whole[-1]])


def difference_of_bias(way: str) -> float:
    """As `difference`, for the bias that SigLIP learns."""
    mine, form = own_part(), Sigmoid(learned=True)
    u, v = (points("sphere", sum(SIZES), seed) for seed in (1, 2))

    def grad(rows: Tensor, cols: Tensor) -> Tensor:
        bias = torch.tensor(-1.0, dtype=torch.float64, requires_grad=True)
        loss = contrast(rows, cols, space=Sphere(8), target=OneHot(), form=form, bias=bias, impl="tiled", tile=2)
        return torch.autograd.grad(loss, bias)[0]

    with sharded_batch(way, mine.stop - mine.start):
        found = grad(u[mine].requires_grad_(), v[mine])
    return furthest([found], [grad(u.requires_grad_(), v)])


def difference_of_fused(way: str, weighted: bool = False) -> float:
    """As `difference`, of the Triton kernels, in float32: those of one process beside those of three."""
    mine, t = own_part(), torch.tensor(1.3)
    points_of = [points("sphere", sum(SIZES), seed).float() for seed in range(1, 5)]
    kwargs = {"space": Sphere(8), "form": CrossEntropy(), "impl": "fused", "weighted": weighted}
    whole = loss_and_grads(points_of, t, None, target=OneHot(), **kwargs)
    with sharded_batch(way, mine.stop - mine.start):
        found = loss_and_grads(points_of, t, mine, target=OneHot(), **kwargs)
    return furthest(found, [whole[0], *(len(SIZES) * g[mine] for g in whole[1:-1]), whole[-1]])


def difference_of_consistency(way: str, name: str, weighted: bool) -> float:
    """As `difference`, of CyCLIP's terms: by matrices that are summed over ranks, or in tiles."""
    mine, space = own_part(), space_named(name, 8)
    pair = [points(name, sum(SIZES), seed) for seed in (1, 2)]

    def terms_and_grads(n: slice, impl: str) -> list[Tensor]:
        leaves = [x[n].detach().clone().requires_grad_() for x in pair]
        found = consistency(*leaves, space, weights=WEIGHTS[n] if weighted else None, impl=impl)
        loss = 2.5 * found.in_modal + 0.7 * found.cross_modal
        return [*(term.detach() for term in found), *torch.autograd.grad(loss, leaves)]

    *terms, by_image, by_text = terms_and_grads(slice(None), "eager")
    with sharded_batch(way, mine.stop - mine.start):
        found = terms_and_grads(mine, "auto")
    return furthest(found, [*terms, *(len(SIZES) * grad[mine] for grad in (by_image, by_text))])


def furthest(found: list[Tensor], true: list[Tensor]) -> float:
    pairs = zip(found, true, strict=True)
    return max(float((a - b).abs().max() / max(1.0, float(b.abs().max()))) for a, b in pairs)


def peak(way: str) -> int:
    """The most bytes that tensors made by loss and gradients hold at the same time."""
    u, v = (points("sphere", EACH, seed, DIM).requires_grad_() for seed in (1, 2))
    kwargs = {"space": Sphere(DIM), "target": OneHot(), "form": CrossEntropy(), "impl": "tiled", "tile": TILE}
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        if way == "everything":
            contrast(gather_points(u), gather_points(v), **kwargs).backward()
        else:
            with sharded_batch(way, EACH):
                contrast(u, v, **kwargs).backward()
    held = most = 0
    for event in sorted(seen.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        held += event.nbytes() if event.name() == "[memory]" else 0
        most = max(most, held)
    return most


if __name__ == "__main__":
    torch.set_num_threads(1)
    with process_group() as ranks:
        found = {"-".join(case): difference(*case) for case in CASES}
        found |= {f"{way}-bias": difference_of_bias(way) for way in ("ring", "gathered")}
        found |= {f"weighted-{case[-1]}": difference(*case, weighted=True) for case in WEIGHED}
        found |= {f"consistency-{case}": difference_of_consistency(*case) for case in CONSISTENT}
        found["gaps"] = difference("ring", *SOFT[1], gaps=True)
        if find_spec("triton"):
            found |= {f"{way}-fused": difference_of_fused(way) for way in ("ring", "gathered")}
            found["weighted-fused"] = difference_of_fused("ring", weighted=True)
        peaks = {way: peak(way) for way in ("ring", "gathered", "everything")}
        told = json.dumps({"differences": found, "peaks": peaks})
        (Path(sys.argv[1]) / f"{ranks.rank}.json").write_text(told)
