"""Tensors of a checkpoint, sharded or whole, load on any number of ranks, whoever wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from started_once import run_ranks
from torch import Tensor

from equipoise.training.checkpoint.distributed_checkpoint import SHARDED, TRAINED, CheckpointReader
from equipoise.types import UserError

WORKER = Path(__file__).parent / "sharded_tensors.py"
TENSORS = {  # fewer rows than ranks, rows that do not divide, other types
    "matrix": torch.arange(15.0).view(5, 3),
    "short": torch.arange(2.0),
    "counts": torch.arange(8).view(4, 2),
    "double": torch.arange(6.0).double().view(6, 1, 1),
}


def write_rows(folder: Path, sizes: tuple[int, ...]) -> Path:
    """A checkpoint of a former version, written by as many ranks as there are sizes."""
    for rank, part in enumerate(TENSORS["matrix"].split(sizes)):
        save_file({"weights/matrix": part.contiguous()}, folder / f"rows-{rank:05d}-of-{len(sizes):05d}.safetensors")
    save_file({"weights/scalar": torch.tensor(7.0)}, folder / "training.safetensors")
    save_file({"matrix": -TENSORS["matrix"]}, folder / "model.safetensors")
    return folder


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name, tensor in expected.items() if not torch.equal(found[name], tensor)] == []


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`by-W`: a checkpoint that W ranks wrote; what `R` ranks read from `whole`, `by-W` and `rows` is checked there."""
    out = tmp_path_factory.mktemp("checkpoints")
    (out / "whole").mkdir()
    save_file({f"{TRAINED}{name}": tensor for name, tensor in TENSORS.items()}, out / "whole" / "training.safetensors")
    (out / "rows").mkdir()
    write_rows(out / "rows", (3, 2))
    run_ranks(2, WORKER, [out])
    run_ranks(3, WORKER, [out])  # reads what two wrote, too
    return out


@pytest.mark.slow
@pytest.mark.parametrize("wrote", ["whole", "by-2", "by-3"])
def test_one_process_loads_what_any_number_wrote(checkpoints, wrote):
    live = {name: torch.zeros_like(tensor) for name, tensor in TENSORS.items()}
    CheckpointReader(checkpoints / wrote).load_into(live, TRAINED)
    assert_equal(live, TENSORS)


@pytest.mark.slow
@pytest.mark.parametrize(("read", "wrote"), [(2, "whole"), (2, "rows"), (3, "whole"), (3, "by-2"), (3, "rows")])
def test_ranks_load_what_another_number_wrote(checkpoints, read, wrote):
    expected = {"matrix": TENSORS["matrix"]} if wrote == "rows" else TENSORS
    assert_equal(load_file(checkpoints / f"{wrote}-read-by-{read}.safetensors"), expected)


@pytest.mark.slow
def test_each_rank_writes_its_part_and_no_pickle(checkpoints):
    files = sorted((checkpoints / "by-2" / SHARDED).iterdir())
    assert [path.suffix for path in files] == [".safetensors"] * 2
    assert [len(load_file(path)["weights/matrix"]) for path in files] == [3, 2]


@pytest.mark.slow
def test_a_missing_part_is_noticed(checkpoints, tmp_path):
    (tmp_path / SHARDED).mkdir()
    for path in sorted((checkpoints / "by-3" / SHARDED).iterdir())[::2]:  # all but the second
        (tmp_path / SHARDED / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"parts of weights/.* are missing"):
        CheckpointReader(tmp_path)


@pytest.mark.parametrize("sizes", [(5,), (3, 2), (2, 2, 1), (2, 2, 1, 0)])
def test_rows_of_former_versions_are_read(tmp_path, sizes):
    """Written by one to four ranks, of which the last may hold nothing."""
    stored = CheckpointReader(write_rows(tmp_path, sizes))
    assert stored.shape("weights/matrix") == (5, 3)
    assert torch.equal(stored.read("weights/matrix"), TENSORS["matrix"])
    assert torch.equal(stored.read("matrix"), -TENSORS["matrix"])
    assert stored.read("weights/scalar").item() == 7


def test_missing_rows_of_former_versions_are_noticed(tmp_path):
    (write_rows(tmp_path, (3, 2)) / "rows-00001-of-00002.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="1 files of rows are there, but 2 processes"):
        CheckpointReader(tmp_path)


def test_misfits_raise_an_error_that_names_them(tmp_path):
    stored = CheckpointReader(write_rows(tmp_path, (3, 2)))
    with pytest.raises(UserError, match=r"differs in scalar"):
        stored.load_into({"matrix": torch.zeros(5, 3)}, TRAINED)
    with pytest.raises(UserError, match=r"matrix is \[5, 3\] there, but \[4, 3\] here"):
        stored.load_into({"matrix": torch.zeros(4, 3), "scalar": torch.zeros(())}, TRAINED)
