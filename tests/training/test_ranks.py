"""Two processes give the losses, gradients and temperature of one with the same batch: gloo, DDP and FSDP2."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from every_space import space_named
from safetensors.torch import load_file
from small_model import (
    FURTHER,
    objective_named,
    random_batch,
    small_model,
    small_multi,
    small_resnet_model,
    small_swin_model,
)

from equipoise.models.model import Model
from equipoise.spaces import TokenSets
from equipoise.training.average import Average
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Batch

WORKER = Path(__file__).parent / "two_ranks.py"
WAYS = [
    ("ddp", 0, "eager", "sphere"),
    ("ddp", 0, "tiled", "product_sphere-geodesic"),
    ("ddp", 2, "eager", "euclidean"),
    ("ddp", 4, "tiled", "sphere"),
    ("fsdp", 0, "eager", "product_sphere-inner"),
    ("fsdp", 4, "tiled", "sphere"),
]
CASES = [
    *((objective, *way) for objective in ("clip", "softclip", "numbered") for way in WAYS),
    ("siglip", "ddp", 4, "tiled", "siglip"),
    ("siglip", "fsdp", 0, "eager", "siglip"),
    ("clip", "ddp", 4, "tiled", "code_book"),
    ("clip", "ddp", 0, "eager", "code_book"),
    ("momentum", "fsdp", 4, "eager", "code_book"),
    ("momentum", "ddp", 4, "tiled", "sphere"),
    ("momentum", "fsdp", 0, "eager", "product_sphere-inner"),
    ("clip", "ddp", 4, "tiled", "multi"),
    ("clip", "fsdp", 0, "eager", "multi"),
    ("clip", "ddp", 0, "tiled", "resnet"),  # batch norm: the statistics of the whole batch
    ("softclip", "fsdp", 0, "eager", "resnet"),
    ("clip", "ddp", 4, "tiled", "swin"),
    ("clip", "fsdp", 0, "eager", "swin"),
    ("slip", "ddp", 0, "eager", "slip"),
    ("declip", "ddp", 0, "tiled", "declip"),
    ("declip", "fsdp", 0, "eager", "declip"),
    ("declip_without_norms", "ddp", 2, "eager", "declip_without_norms"),
    ("filip", "ddp", 2, "tiled", "token_set"),
    ("mixed", "ddp", 0, "eager", "mixed"),  # a temperature of its own, learned
    ("mixed", "ddp", 2, "tiled", "mixed"),
    ("mixed", "fsdp", 0, "tiled", "mixed"),
    ("mixed_fixed", "ddp", 4, "tiled", "product_sphere-inner"),
    ("mixed_fixed", "fsdp", 0, "eager", "euclidean"),
]
DIVIDED = [  # each rank compares its own images with the texts of both
    ("clip", "ddp", 0, "tiled", "sphere", "ring"),
    ("clip", "fsdp", 4, "eager", "product_sphere-inner", "gathered"),
    ("clip", "ddp", 2, "auto", "multi", "gathered"),
    ("clip_smoothed", "fsdp", 0, "tiled", "resnet", "ring"),
    ("softclip", "ddp", 4, "tiled", "euclidean", "ring"),
    ("softclip", "fsdp", 0, "tiled", "sphere", "gathered"),
    ("siglip", "ddp", 4, "tiled", "siglip", "gathered"),
    ("siglip", "fsdp", 0, "tiled", "siglip", "ring"),
    ("momentum", "ddp", 2, "tiled", "sphere", "ring"),
    ("filip", "ddp", 2, "tiled", "token_set", "gathered"),
]
WITH_EXCHANGE = [*((*case, "everything") for case in CASES), *DIVIDED]


def model_of(space: str) -> Model:
    """By the name of its space, or of what is special about it."""
    if space in FURTHER:  # with the heads of the objective so called
        return small_model(bias=-3.0 if space == "siglip" else None, heads=FURTHER[space].heads)
    if space == "token_set":
        return small_model(TokenSets(4, 8), readout="token_set")
    if space == "code_book":
        return small_model(readout="code_book")
    named = {"multi": small_multi, "resnet": small_resnet_model, "swin": small_swin_model}
    return named[space]() if space in named else small_model(space_named(space, 16))


def name_of(case: tuple[str | int, ...]) -> str:
    return "-".join(map(str, case))


def batch_of(space: str, seed: int) -> Batch:
    return random_batch(12, seed, size=32 if space == "resnet" else 16)


def one_rank(objective: str, space: str, steps: int = 3) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The losses, and what is logged of the last step; the weights."""
    model = model_of(space).train()
    settings = Training(learning_rate=1e-2, warmup_steps=0, ema=0.5)
    step, average = Step(model, objective_named(objective), settings, torch.device("cpu")), Average(model, 0.5)
    losses = []
    for number in range(1, steps + 1):
        loss = step(batch_of(space, number), number, average).loss
        losses.append(loss.total.item())
        average.update(model, number)
    return [*losses, *loss.facts().values()], {name: t.detach() for name, t in model.state_dict().items()}


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes found in every case: one start for all of them, and for all that run these tests at once."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return find_of_two(tmp_path_factory.mktemp("two"))
    out = tmp_path_factory.getbasetemp().parent / "two_ranks"  # the folder that pytest's workers share
    try:
        out.mkdir()
    except FileExistsError:
        for _ in range(3000):
            if (out / "ended").exists():
                break
            time.sleep(0.1)
        assert (out / "ended").read_text() == "well", "two processes failed in another worker of pytest; see there"
        return out
    ended = "badly"
    try:
        find_of_two(out)
        ended = "well"
    finally:
        (out / "ending").write_text(ended)
        (out / "ending").rename(out / "ended")  # nobody reads half a word
    return out


def find_of_two(out: Path) -> Path:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(WORKER)]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, WORKER.parents[1:3]))}  # what is beside these tests
    done = subprocess.run([*command, str(out)], capture_output=True, text=True, timeout=300, check=False, env=here)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.parametrize("case", WITH_EXCHANGE, ids=name_of)
def test_two_ranks_equal_one(case, two_ranks):
    """open_clip #616, #894: gather flags that silently scale gradients. Here weights after three steps agree."""
    objective, _, _, _, space, _ = case
    losses, weights = one_rank(objective, space)
    two = load_file(two_ranks / f"{name_of(case)}.safetensors")
    torch.testing.assert_close(two.pop("losses"), torch.tensor(losses).double(), rtol=0, atol=1e-10)
    weights.pop("shared.usage", None)  # each process notes that of its own part
    for name, tensor in weights.items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")
