"""Want of memory is one sentence that says what to change, and the run goes on with that changed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_run import write_recipe

from equipoise.cli import main
from equipoise.ops.out_of_memory import lacks_memory, memory_phrase
from equipoise.settings.difference import differences
from equipoise.training.checkpoint.run_folder import MEMORY, require_same
from equipoise.training.logging.metrics import read_metrics
from equipoise.types import UserError
from equipoise.workflows import run_recipe

HERE = Path(__file__).parent
PEBIBYTE = 2**50


def failure(work) -> BaseException:
    with pytest.raises((MemoryError, RuntimeError, OSError)) as error:
        work()
    return error.value


@pytest.mark.parametrize(
    "work",
    [
        lambda: torch.empty(PEBIBYTE, dtype=torch.uint8),
        lambda: torch.empty(2**62, 2**62),
        lambda: np.empty(PEBIBYTE),
        lambda: bytearray(PEBIBYTE),
    ],
)
def test_allocators_are_understood(work):
    error = failure(work)
    assert lacks_memory(error)
    assert memory_phrase(error).startswith("memory ran out")


def test_amounts_are_told_and_other_errors_are_not_taken_for_it():
    asked = failure(lambda: torch.empty(PEBIBYTE, dtype=torch.uint8))
    assert "1,048,576.00 GiB" in memory_phrase(asked)
    assert lacks_memory(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
    assert not lacks_memory(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert not lacks_memory(failure(lambda: torch.zeros(2) @ torch.zeros(3)))


def test_a_run_may_go_on_with_other_needs_of_memory_alone(tmp_path, tiny):
    assert set(MEMORY) <= set(differences({}, tiny.table))  # they are keys of recipes
    before, after = dict.fromkeys(MEMORY, 1), dict.fromkeys(MEMORY, 2)
    require_same(tmp_path, before, after)
    with pytest.raises(UserError, match=r"training\.ema is 0\.5 there and 0\.9 here"):
        require_same(tmp_path, {**before, "training.ema": 0.5}, {**after, "training.ema": 0.9})


@pytest.mark.slow
def test_a_run_that_ran_out_goes_on_with_less(tmp_path, monkeypatch):
    """The third step asks for more than there is; the settings that the sentence names are all that is changed."""
    monkeypatch.syspath_prepend(HERE)
    hungry = ("objective.name=hungry:Hungry", "training.checkpoint_every=1", "training.steps=4")
    recipe, out = str(write_recipe(tmp_path)), tmp_path / "run"
    with pytest.raises(UserError) as error:
        run_recipe(recipe, hungry, out, "")
    sentence = str(error.value)
    assert "memory ran out" in sentence
    assert str(out / "checkpoints" / "step-00000002") in sentence
    assert "--resume" in sentence
    for key in MEMORY:
        assert key in sentence
    less = ("training.micro_batch=4", "training.recompute_activations=true", "objective.impl=tiled")
    less += ("evaluation.batch_size=4", "evaluation.chunk=4")
    assert run_recipe(recipe, (*hungry, *less), out, "", resume=True) == 0
    steps = [record["step"] for record in read_metrics(out / "metrics.jsonl") if "loss" in record]
    assert steps == [1, 2, 3, 4]
    assert "micro_batch = 4" in (out / "config.toml").read_text()


def test_nothing_was_saved_yet(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(HERE)
    words = ["--set", "objective.name=hungry:Hungry", "--set", "training.checkpoint_every=0"]
    assert main(["train", str(write_recipe(tmp_path)), *words, "--out", str(tmp_path / "run")]) == 2
    sentence = capsys.readouterr().err.strip().splitlines()[-1]
    assert "training.micro_batch" in sentence
    assert "no checkpoint" in sentence


LIMITED = """
import resource, sys
import equipoise.workflows  # the program itself has room
from equipoise.cli import main
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]) * 2**20,) * 2)
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit is set by what Linux says is used")
def test_a_command_on_a_machine_without_room(finished_run):
    """The evaluation of a small model within 48 MiB: no setting is absurd, the system refuses for real."""
    command = [sys.executable, "-c", LIMITED, "48", "eval", finished_run, "--set", "data.test_size=20000"]
    done = subprocess.run(
        [*map(str, command), "--set", "evaluation.batch_size=20000"], capture_output=True, text=True, check=False,
        timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr[-2000:]
    assert "memory ran out" in done.stderr
    assert "evaluation.batch_size" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_without_room(tmp_path, capsys):
    torch.cuda.set_per_process_memory_fraction(1e-3)
    try:
        large = ("image.width=2048", "image.layers=12", "training.device=cuda", "training.batch_size=40")
        words = [word for setting in large for word in ("--set", setting)]
        assert main(["train", str(write_recipe(tmp_path)), *words, "--out", str(tmp_path / "run")]) == 2
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    sentence = capsys.readouterr().err.strip().splitlines()[-1]
    assert "the GPU's memory ran out" in sentence
    assert "training.micro_batch" in sentence
