"""Fine-tuning of what other libraries wrote, and on two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_clip import (
    small_config,
    small_open_clip,
    small_tokens,
    small_transformers,
    write_open_clip,
    write_transformers,
)
from tuning_runs import SHIFTED, ended, trained

from equipoise.config import load_stored
from equipoise.models.folder import read_tensors
from equipoise.runs import load

ROOT = Path(__file__).parents[1]


def test_a_folder_of_open_clip(tmp_path, open_clip):
    tokens = small_tokens()
    config = small_config(tokens=tokens)
    peer = small_open_clip(open_clip, config)
    start = write_open_clip(tmp_path / "theirs", peer.state_dict(), config, tokens)
    settled = ended(start, tmp_path / "out", "m3mix", "training.learning_rate=1e-3")
    assert "not trained here" in settled.comparison.left_out
    copy = load(tmp_path / "out" / "start")
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(
        copy.state_dict().values(), load(start).state_dict().values(), strict=True))  # fmt: skip
    run = load_stored(tmp_path / "out" / "config.toml").run
    assert run.preprocess.mean == (0.5, 0.4, 0.3)
    assert settled.model.encode_text(["a red fish"]).shape == (1, 12)


def test_a_folder_of_transformers(tmp_path, transformers):
    tokens = small_tokens()
    start = write_transformers(tmp_path / "theirs", small_transformers(transformers, tokens), tokens, transformers)
    state, logged = trained(start, tmp_path / "out", "lora", "lora.rank=2")
    assert any(bool(tensor.any()) for name, tensor in state.items() if name.endswith(".adapter.up"))
    assert logged[-1]["step"] == 8


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_end_where_one_does(tmp_path, finished_run, parallel):
    """The readouts first, then adapters: two sets of parameters, neither of them all."""
    more = ("lora.rank=2", "training.trains=added", "training.probe.share=0.5", f"training.parallel={parallel}")
    _, logged = trained(finished_run, tmp_path / "one", "lora", *more)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        "equipoise.cli",
    ]
    words = ["finetune", finished_run, "demo", "--method", "lora", "--out", tmp_path / "two"]
    sets = [f"--set={text}" for text in (*SHIFTED, *more)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *map(str, words), *sets],
        capture_output=True, text=True, timeout=300, check=False, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert (tmp_path / "two" / "tuning.json").is_file(), done.stderr[-3000:]
    told = [json.loads(line) for line in (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()]
    for mine, theirs in zip(logged, told, strict=True):
        assert theirs.get("loss") == pytest.approx(mine.get("loss"), rel=1e-4)
    one, two = (
        read_tensors(tmp_path / run / "checkpoints" / "step-00000008" / "model.safetensors") for run in ("one", "two")
    )
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-2, atol=1e-3, msg=name)
