"""A contrast divided among three ranks, in unequal parts: loss and gradients of the whole, memory of a part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from sharded_ranks import CASES, CONSISTENT, DIM, EACH, WEIGHED
from started_once import once, run_ranks
from test_contrast import made

from equipoise.forms import FORMS, CrossEntropy, Statistics
from equipoise.kernels.sharding.context import target_of_batch
from equipoise.kernels.sharding.ring import Ring
from equipoise.targets import OneHot, Target, TargetBlock
from equipoise.types import UserError

WORKER = Path(__file__).parent / "sharded_ranks.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, float]]]:
    """What each rank found."""
    out = once(tmp_path_factory, "divided", lambda out: run_ranks(3, WORKER, [out]))
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    ["-".join(case) for case in CASES]
    + ["ring-bias", "gathered-bias", "gaps"]
    + [f"weighted-{case[-1]}" for case in WEIGHED]
    + [f"consistency-{case}" for case in CONSISTENT],
)
def test_three_ranks_give_what_one_gives(case, found):
    """The loss, and the gradients of both points, of guides, temperature and bias, in float64."""
    assert max(rank["differences"][case] for rank in found) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ring", "gathered", "weighted"])
def test_kernels_of_three_ranks_give_what_those_of_one_give(way, found):
    pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are NOT tested")
    assert max(rank["differences"][f"{way}-fused"] for rank in found) < 2e-6


@pytest.mark.slow
def test_memory_round_a_ring_is_that_of_a_part(found):
    """Own gradients and their copies, two parts of columns, and three of their gradients; never those of all ranks."""
    parts = {way: found[0]["peaks"][way] / (EACH * DIM * 8) for way in ("ring", "gathered", "everything")}
    assert parts["ring"] < 9
    assert parts["ring"] < parts["gathered"]
    assert parts["everything"] > 2 * parts["ring"]  # six of points, six of gradients, and more


@pytest.mark.parametrize("form", FORMS)
def test_the_loss_of_parts_averages_to_that_of_the_whole(form):
    """What `divisible` promises of a form: parts that have as much of the rows as of the columns."""
    chosen = made(FORMS[form])
    assert chosen.divisible
    n = 10
    rows, cols = ({name: torch.rand(n).double() for name in chosen.reductions} for _ in range(2))
    whole = Statistics(rows, cols, (n, n))
    average = 0.0
    for some in (range(0, 2), range(2, 7), range(7, 10)):
        part = whole.at(some, some)
        average += len(some) / n * float(chosen.finish(Statistics(part.rows, part.cols, (len(some), len(some)))))
    assert average == pytest.approx(float(chosen.finish(whole)), abs=1e-12)


class Peculiar(Target):
    """A target of one's own that does not say it can be divided."""

    def block(self, rows, cols, like, scores=None):
        return TargetBlock(None, None)


@pytest.mark.parametrize(
    ("rows", "target", "sentence"),
    [
        (3, Peculiar(), "the target Peculiar cannot be divided among processes; set training.exchange to everything"),
        (4, OneHot(), "4 rows and 3 columns are no part of a batch of which 3 samples are here"),
    ],
)
def test_what_cannot_be_divided_is_refused(rows, target, sentence):
    u, v = torch.zeros(rows, 8), torch.zeros(3, 8)
    with pytest.raises(UserError, match=sentence):
        target_of_batch(Ring(1, (2, 3)), u, v, target, CrossEntropy())
