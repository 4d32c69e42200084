"""Whole runs on two ranks: they end where one process does, stop together, and are saved so that any number goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_run import sent, small_run, without_clock, write_recipe

from equipoise.io.digests import DIGESTS
from equipoise.models.folder import step_folders
from equipoise.training.logging.metrics import read_metrics
from equipoise.types import UserError
from equipoise.workflows import load, run_recipe

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WITHOUT_DRAWS = "image.patch_dropout=0"
ROUNDING = {"rel": 2e-5, "abs": 2e-6}


def torchrun(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}:{HERE}"}
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
        cwd=ROOT,
    )


def own_messages(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Our own sentences; torchrun adds a summary of its own."""
    return [line for line in done.stderr.splitlines() if line.startswith("equipoise: ") and "warning" not in line]


def losses(folder: Path) -> list[float]:
    return [record["loss"] for record in read_metrics(folder / "metrics.jsonl") if "loss" in record]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two_runs.py leaves its runs; a run of one process is there before."""
    out = tmp_path_factory.mktemp("runs")
    small_run(out / "from one", WITHOUT_DRAWS, "training.parallel=fsdp").go({5: sent(signal.SIGTERM)})
    small_run(out / "one", WITHOUT_DRAWS, "training.parallel=fsdp").go()
    done = torchrun(HERE / "two_runs.py", out)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_stopped_on_one_rank_and_resumed_bit_for_bit(runs, parallel):
    alone, stopped = runs / parallel / "alone", runs / parallel / "stopped"
    metrics = [without_clock(read_metrics(folder / "metrics.jsonl")) for folder in (alone, stopped)]
    assert metrics[0] == metrics[1]
    files = sorted(path.relative_to(alone) for path in alone.rglob("*.safetensors") if "00000008" in str(path))
    assert len(files) == {"ddp": 2, "fsdp": 4}[parallel]
    for file in (*files, Path("checkpoints/best/model.safetensors")):
        one, two = load_file(alone / file), load_file(stopped / file)
        assert one.keys() == two.keys()
        assert [name for name in one if not torch.equal(one[name], two[name])] == []


@pytest.mark.slow
def test_each_rank_draws_numbers_of_its_own(runs):
    states = load_file(runs / "ddp" / "alone" / "checkpoints" / "step-00000008" / "training.safetensors")
    assert not torch.equal(states["random/0/cpu"], states["random/1/cpu"])


@pytest.mark.slow
def test_no_rank_writes_the_whole_state(runs):
    """Moments and trained weights under FSDP2 lie in two files, half in each; the model is whole for whoever loads."""
    last = runs / "fsdp" / "alone" / "checkpoints" / "step-00000008"
    halves = [load_file(path) for path in sorted((last / "sharded").iterdir())]
    assert len(halves) == 2
    model, rest = load_file(last / "model.safetensors"), load_file(last / "training.safetensors")
    for name in model.keys() - {"logit_scale"}:
        for part in ("weights", "optimiser/exp_avg", "optimiser/exp_avg_sq"):
            assert len(halves[0][f"{part}/{name}"]) + len(halves[1][f"{part}/{name}"]) == len(model[name])
            assert f"{part}/{name}" not in rest


@pytest.mark.slow
def test_every_ranks_file_has_its_digest(runs, tmp_path):
    """Digests that each rank made of what it wrote; a bit that flips in one is told whoever goes on with the run."""
    source = runs / "fsdp" / "alone"
    digests = json.loads((step_folders(source)[-1] / DIGESTS).read_text())
    sharded = sorted(path.relative_to(step_folders(source)[-1]) for path in source.glob("checkpoints/*8/sharded/*"))
    assert len(sharded) == 2
    assert {str(path) for path in sharded} < digests["sha256"].keys()
    assert digests["step"] == 8
    shutil.copytree(source, tmp_path / "run")
    path = step_folders(tmp_path / "run")[-1] / sharded[1]
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match=re.escape(str(path))):
        small_run(tmp_path / "run", "training.parallel=fsdp", "training.steps=9").go(resume=True)


@pytest.mark.slow
def test_two_ranks_go_on_from_one_and_one_from_two(runs):
    expected = losses(runs / "one")
    assert losses(runs / "from one") == pytest.approx(expected, **ROUNDING)
    assert load(runs / "half").encode_text("a red fish").shape == (1, 16)
    run = small_run(runs / "half", WITHOUT_DRAWS, "training.parallel=fsdp")
    with pytest.warns(UserWarning, match="saved by 2 processes and goes on with 1"):
        assert run.go(resume=True).step == 8
    assert losses(runs / "half") == pytest.approx(expected, **ROUNDING)
    one, two = (load_file(runs / name / "checkpoints/step-00000008/model.safetensors") for name in ("one", "half"))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_ranks_that_compile_end_where_one_does(runs, parallel):
    assert losses(runs / f"compiled {parallel}") == pytest.approx(losses(runs / "one"), **ROUNDING)


@pytest.mark.slow
def test_the_command_line_gives_what_one_process_gives(tmp_path):
    """From data to report, with shares of unequal size in evaluation."""
    changes = (WITHOUT_DRAWS, "data.validation_size=7", "data.test_size=7", "evaluation.batch_size=2")
    settings = (*changes, "training.parallel=fsdp", "training.exchange=ring")
    recipe = write_recipe(tmp_path)
    words = [word for setting in settings for word in ("--set", setting)]
    done = torchrun("-m", "equipoise.cli", "train", recipe, *words, "--out", tmp_path / "two")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("The report is") == 1
    assert done.stderr.count("training 8/8") == 1
    assert run_recipe(str(recipe), settings, tmp_path / "one", "") == 0
    one, two = (without_clock(read_metrics(tmp_path / name / "metrics.jsonl")) for name in ("one", "two"))
    assert len(one) == len(two)
    for mine, theirs in zip(one, two, strict=True):
        assert theirs == pytest.approx(mine, rel=1e-3, abs=1e-5)
    for protocol in (path.name for path in (tmp_path / "one" / "results").iterdir()):
        found = [json.loads((tmp_path / n / "results" / protocol).read_text())["metrics"] for n in ("one", "two")]
        assert found[1] == pytest.approx(found[0], rel=1e-3, abs=1e-5)
    points = [load(tmp_path / name).encode_text(["a red fish", "two stars"]) for name in ("one", "two")]
    torch.testing.assert_close(points[1], points[0], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        pytest.param("refuse", r"equipoise: the second rank has had enough", marks=pytest.mark.slow),
        ("die", r"equipoise: another process of this run died or kept rank 0 of 2 waiting for too long \(.*\); see"),
        pytest.param(
            "stall",
            r"equipoise: another process of this run died or kept rank 0 of 2 waiting for too long \(.*\); see",
            marks=pytest.mark.slow,  # torchrun gives the sleeper half a minute to go
        ),
    ],
)
def test_a_rank_that_fails_ends_all_with_one_sentence(tmp_path, how, sentence):
    settings = ("objective.name=failing:Failing", f"objective.how={how}", "training.rank_timeout=5")
    words = [word for setting in settings for word in ("--set", setting)]
    done = torchrun("-m", "equipoise.cli", "train", write_recipe(tmp_path), *words, "--out", tmp_path / "run")
    assert done.returncode != 0
    assert len(own_messages(done)) == 1, done.stderr[-3000:]
    assert re.match(sentence, own_messages(done)[0])
    assert not (tmp_path / "run" / ".lock").exists()
