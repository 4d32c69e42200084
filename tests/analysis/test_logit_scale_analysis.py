"""What is read off the log of a run."""

from __future__ import annotations

import json

import pytest

from equipoise.analysis.logit_scale import logit_scale_curve, read_logit_scale
from equipoise.types import UserError

RECORDS = [
    {"step": step, "logit_scale": 10.0 + (step < 30) * step, "at_bound": float(step > 70)}
    for step in range(10, 101, 10)
]


def test_a_curve_knows_start_end_convergence_and_bound():
    curve = logit_scale_curve("runs/a", "sphere", RECORDS, start=14.3, learnable=True, epoch_steps=20)
    assert (curve.start, curve.final, curve.at_bound) == (14.3, 10.0, 0.3)
    assert curve.converged == 30
    fixed = logit_scale_curve("runs/a", "sphere", RECORDS, start=14.3, learnable=False, epoch_steps=20)
    assert fixed.converged is None
    with pytest.raises(UserError, match="at least 1 step"):
        logit_scale_curve("runs/a", "sphere", RECORDS, start=1.0, learnable=True, epoch_steps=0)


def test_a_folder_without_metrics_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no metrics in .*nowhere \(there is no such folder\)"):
        read_logit_scale(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"holds metrics.jsonl"):
        read_logit_scale(tmp_path)
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 2.0}) + "\n")
    with pytest.raises(UserError, match="holds no logit scale yet"):
        read_logit_scale(tmp_path)
