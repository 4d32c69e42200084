"""Products in TF32: refused where there are no tensor cores, chosen within a step alone, and told by a cell."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
import torch

from equipoise.objectives import CLIP
from equipoise.ops.tf32 import tf32_products
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import UserError
from equipoise.workflows.claims import make
from equipoise.workflows.claims.cell import Cell
from equipoise.workflows.claims.make import FLOAT32, Ways, _as_run

SETTINGS = Training(steps=4, batch_size=16, learning_rate=1e-2, precision="float32", device="cpu")


def test_a_processor_is_refused(model):
    with pytest.raises(UserError, match="precision tf32 needs a GPU with tensor cores, which cpu is not; use auto"):
        Step(model, CLIP(), replace(SETTINGS, precision="tf32"), torch.device("cpu"))


def test_the_choice_ends_with_the_step_even_if_that_fails():
    before = torch.get_float32_matmul_precision()
    with suppress(RuntimeError), tf32_products(True):
        assert torch.get_float32_matmul_precision() == "high"
        raise RuntimeError("of the step")
    assert torch.get_float32_matmul_precision() == before
    with tf32_products(False):
        assert torch.get_float32_matmul_precision() == before


def test_a_cell_keeps_its_name_and_trains_by_tensor_cores():
    cell = Cell("demo", ("data.root={features}", FLOAT32), "train", 0)
    asked = _as_run(cell, {}, Ways(tf32=True))
    assert "training.precision=tf32" in asked.settings
    assert FLOAT32 in cell.settings
    assert _as_run(cell, {}, Ways()).settings[1] == FLOAT32
    both = _as_run(cell, {}, Ways(cuda_graphs=True, compiled=True)).settings
    assert {"training.cuda_graphs=true", "training.compile=true"} < set(both)
    assert Ways(tf32=True, compiled=True).told() == ", products in TF32, compiled", "beside the device"


def test_what_a_cell_measures_is_by_tensor_cores_too(monkeypatch, tmp_path):
    monkeypatch.setattr(make, "_found", lambda *_: {"high": float(torch.get_float32_matmul_precision() == "high")})
    cell = Cell("demo", (), "train", 0)
    for ways, high in ((Ways(tf32=True), 1.0), (Ways(), 0.0)):
        assert not make.make_cell(cell, tmp_path, "cpu", "", ways=ways)
        assert json.loads(cell.file(tmp_path).read_text())["found"] == {"high": high}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_rounds_the_factors():
    torch.manual_seed(0)
    rows = torch.randn(512, 512, device="cuda")
    exact = rows @ rows
    with tf32_products(True):
        rounded = rows @ rows
    error = (rounded - exact).abs().max() / exact.abs().max()
    assert 1e-6 < error < 1e-2
