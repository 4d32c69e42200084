"""What a log says of a run's mixups, and when it is to be warned of."""

from __future__ import annotations

import json

import pytest

from equipoise.evaluation.mix_course import mix_course
from equipoise.workflows import run_recipe


def test_means_are_over_logged_steps_and_sides():
    records = [
        {"step": 1, "mix/weight": 1.0, "mix/above_image": 0.2, "mix/above_text": 0.4},
        {"step": 2, "mix/weight": 0.5, "mix/above_image": 0.8, "mix/above_text": 1.0},
        {"step": 2, "validation/mean_recall": 0.3},
    ]
    found = mix_course(records)
    assert found.metrics() == {"mix/weight_mean": 0.75, "mix/above_mean": pytest.approx(0.6)}
    assert found.warnings() == []
    assert mix_course([{"step": 1, "loss": 1.0}]) is None
    alone = mix_course([{"step": 1, "mix/weight": 1.0}])  # V-Mix: no negatives are made
    assert (alone.above, alone.warnings()) == (None, [])


def test_a_precondition_that_does_not_hold_is_warned_of():
    easy = mix_course([{"step": 1, "mix/weight": 1.0, "mix/above_class": 0.02}])
    assert len(easy.warnings()) == 1
    assert "2.0% of the negatives" in easy.warnings()[0]
    short = mix_course([{"step": step, "mix/weight": 1 / step, "mix/above_class": 0.9} for step in range(1, 101)])
    assert short.weight == pytest.approx(0.0519, abs=1e-4)
    assert "objective.per_epoch=false" in short.warnings()[0]


@pytest.mark.slow
def test_a_run_tells_and_per_epoch_can_be_switched_off(tiny_settings, tmp_path):
    short = (*tiny_settings, "training.batch_size=32", "training.steps=6", "objective.name=m2mix")  # 2 steps an epoch
    for on, mean in ((True, (1 + 1 + 0.5 + 0.5 + 1 / 3 + 1 / 3) / 6), (False, 1.0)):
        out = tmp_path / str(on)
        assert run_recipe("demo", (*short, f"objective.per_epoch={str(on).lower()}"), out, "") == 0
        metrics = json.loads((out / "metrics.json").read_text())
        assert metrics["mix/weight_mean"] == pytest.approx(mean)
        assert 0 <= metrics["mix/above_mean"] <= 1
