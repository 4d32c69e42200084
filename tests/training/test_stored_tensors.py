"""Tensors of a checkpoint by rows, whoever wrote them."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from equipoise.training.distributed.stored_tensors import CheckpointReader
from equipoise.types import UserError

WHOLE = torch.arange(15.0).view(5, 3)


@pytest.fixture(params=[(5,), (3, 2), (2, 2, 1), (2, 2, 1, 0)])
def stored(request, tmp_path):
    """Written by one to four ranks, of which the last may hold nothing."""
    files = []
    for number, part in enumerate(WHOLE.split(request.param)):
        files.append(tmp_path / f"{number}.safetensors")
        scalar = {"part/scalar": torch.tensor(7.0)} if number == 0 else {}
        save_file({"part/rows": part.contiguous(), **scalar}, files[-1])
    return CheckpointReader(files)


@pytest.mark.parametrize("readers", [1, 2, 3, 5, 7])
def test_any_number_reads_what_any_number_wrote(stored, readers):
    each = -(-5 // readers)
    parts = [stored.read("part/rows", range(5)[rank * each : (rank + 1) * each]) for rank in range(readers)]
    assert torch.equal(torch.cat(parts), WHOLE)
    assert torch.equal(stored.read("part/rows"), WHOLE)
    assert stored.read("part/scalar").item() == 7
    assert stored.shape("part/rows") == (5, 3)


def test_tensors_are_filled_by_name_and_misfits_are_refused(stored):
    live = {"rows": torch.zeros(5, 3), "scalar": torch.zeros(())}
    stored.load_into(live, "part/")
    assert torch.equal(live["rows"], WHOLE)
    with pytest.raises(UserError, match=r"differs in scalar"):
        stored.load_into({"rows": torch.zeros(5, 3)}, "part/")
    with pytest.raises(UserError, match=r"rows is \[5, 3\] there, but \[4, 3\] here"):
        stored.load_into({"rows": torch.zeros(4, 3), "scalar": torch.zeros(())}, "part/")
