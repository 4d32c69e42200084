"""Losses on three ranks under DDP and FSDP: after averaging, the gradients of one process with the whole batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loss_ranks import CASES, MANY, WAYS, WHOLE, WIDE
from started_once import once, run_ranks

WORKER = Path(__file__).parent / "loss_ranks.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, open_clip) -> list[dict]:
    """What each rank found."""
    out = once(tmp_path_factory, "loss-ranks", lambda out: run_ranks(3, WORKER, [out, "gloo"]))
    return [json.loads((out / f"gloo-{rank}.json").read_text()) for rank in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [f"{name}-{way}" for name in CASES for way in WAYS]
    + [f"{name}-auto" for name in WHOLE]
    + ["fsdp-everything", "fsdp-ring"],
)
def test_three_ranks_train_as_one_process(case, found):
    """The loss, and the gradients of towers, logit scale and bias, in float64."""
    assert max(rank["differences"][case] for rank in found) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_gradients_under_ddp_are_those_of_open_clip(name, found):
    assert max(rank["open_clip"][name] for rank in found) < 1e-12


@pytest.mark.slow
def test_a_mistake_of_one_rank_ends_all_with_one_sentence(found):
    said = [rank["said"] for rank in found]
    for rank in said:
        assert "rank 0 has 4 pairs and rank 1 3" in rank["sizes"]
        assert "drop_last" in rank["sizes"]
        assert "rank 0 has 4 pairs and rank 2 3" in rank["sizes of a mix"]
        assert "rank 0 has 4 numbers per feature and rank 1 8" in rank["widths"]
        assert rank["local"].startswith("no error")
    assert "text_features are not points" in said[1]["normalised"]
    assert "rank 1 cannot compute its part" in said[0]["normalised"]
    assert "rank 1 cannot compute its part" in said[2]["normalised"]


@pytest.mark.slow
def test_memory_of_a_ring_is_that_of_a_shard(found):
    parts = {way: found[0]["peaks"][way] / (MANY * WIDE * 4) for way in ("everything", "gathered", "ring")}
    assert parts["ring"] < parts["everything"] / 2


@pytest.mark.slow
def test_a_group_of_gpus_alone_still_passes_numbers_of_the_host(tmp_path):
    """As open_clip starts it for nccl; here gloo that was told of GPUs alone."""
    run_ranks(2, WORKER, [tmp_path, "cuda:gloo"])
    for rank in range(2):
        found = json.loads((tmp_path / f"cuda-gloo-{rank}.json").read_text())
        assert found == {"numbers": [[0, 7], [1, 7]], "again": [[1], [2]]}
