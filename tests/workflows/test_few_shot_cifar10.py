"""Few shots of real pictures, where they are: set EQUIPOISE_TEST_DATA, or keep them at ../shared/data."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from equipoise.config import load_run
from equipoise.workflows import run_recipe

REAL = Path(os.environ.get("EQUIPOISE_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.slow
@pytest.mark.skipif(
    not (REAL / "cifar10_train5k").is_dir(), reason=f"{REAL} is not there: few shots of CIFAR-10 NOT tested"
)
def test_cifar10(tmp_path: Path) -> None:
    small = [
        f"data.of.root={REAL}", "image.width=32", "image.layers=1", "text.width=32", "text.layers=1", "space.dim=16",
        "preprocess.size=32", "training.steps=2", "training.batch_size=20", "training.device=cpu", "data.shots=4",
    ]  # fmt: skip
    with pytest.warns(UserWarning, match="held out"):
        assert run_recipe("few-shot-cifar10", small, tmp_path / "run", "equipoise train few-shot-cifar10") == 0
    train_set = load_run("few-shot-cifar10", small).run.data.build("train")
    assert len(train_set) == 40
    assert train_set.pair(0).captions[0].startswith("a photo of ")
    found = json.loads((tmp_path / "run" / "results" / "zero_shot.json").read_text())
    assert found["equipoise"]["chance"]["acc1"] == pytest.approx(0.1)
