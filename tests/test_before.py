"""Runs and model folders of an earlier version load, go on, and give what they gave."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

import equipoise as eq
from equipoise.cli import main

BEFORE = Path(__file__).parent / "before"
EXPECTED = json.loads((BEFORE / "expected.json").read_text())


def losses(run: Path) -> list[float]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["loss"] for record in records if "loss" in record]


def test_an_old_model_folder_gives_the_same_similarities() -> None:
    model = eq.load(BEFORE / "model")
    u = model.encode_image([Image.new("RGB", (64, 64), colour) for colour in ("blue", "red")])
    v = model.encode_text(["a red fish", "a blue star"])
    torch.testing.assert_close(model.similarity(u, v), torch.tensor(EXPECTED["similarity"]), atol=1e-5, rtol=1e-5)
    assert model.log_scale.item() == pytest.approx(EXPECTED["log_scale"])


def test_an_old_run_goes_on_to_the_same_losses(tmp_path: Path) -> None:
    run = shutil.copytree(BEFORE / "run", tmp_path / "run")
    assert main(["train", "--resume", str(run)]) == 0
    assert losses(run) == pytest.approx(EXPECTED["run"], rel=1e-4)
    assert (run / "report.html").exists()


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.slow
def test_an_old_sharded_run_goes_on_with_any_number_of_processes(tmp_path: Path, processes: int) -> None:
    run = shutil.copytree(BEFORE / "fsdp", tmp_path / "run")
    words = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m", "equipoise.cli"]
    subprocess.run([sys.executable, *words, "train", "--resume", run], check=True, capture_output=True, timeout=300)
    assert losses(run) == pytest.approx(EXPECTED["fsdp"], rel=1e-3)
