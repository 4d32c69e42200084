"""Gradient norms of the terms of a loss: against a backward pass of each term alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from small_model import objective_named, random_batch, small_model

from equipoise.cli import main
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.training.term_gradients import require_gradients_possible
from equipoise.types import UserError


@pytest.mark.parametrize("name", ["declip", "slip", "clip"])
def test_norms_are_those_of_each_term_alone(name: str) -> None:
    chosen, batch = objective_named(name), random_batch(6)
    model = small_model(heads=chosen.heads)
    step = Step(model, chosen, Training(log_gradients=True, log_every=1), torch.device("cpu"))
    found = step._backward(batch, by_term=True)
    total = {key: parameter.grad.clone() for key, parameter in model.named_parameters() if parameter.grad is not None}
    for term in found.terms:
        model.zero_grad()
        embeddings = model(batch, chosen.needs)
        alone = chosen(embeddings, batch, log_scale=model.log_scale, space=model.space).terms[term]
        alone.backward()
        norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
        assert found.facts()[f"gradient/{term}"] == pytest.approx(float(torch.stack(norms).norm()), rel=1e-6)
    model.zero_grad()
    Step(model, chosen, Training(), torch.device("cpu"))._backward(batch)
    for key, parameter in model.named_parameters():  # the step's own gradients are the same bits
        assert key not in total or torch.equal(parameter.grad, total[key])


def test_what_cannot_be_told_is_refused() -> None:
    for settings, processes in ((Training(log_gradients=True, micro_batch=4), 1), (Training(log_gradients=True), 2)):
        with pytest.raises(UserError, match="log_gradients"):
            require_gradients_possible(settings, processes)
    require_gradients_possible(Training(micro_batch=4), 2)


@pytest.mark.slow
def test_a_run_logs_them_at_the_steps_it_logs(tmp_path: Path) -> None:
    words = ["data.train_size=16", "data.validation_size=4", "data.test_size=4", "training.steps=4", "space.dim=8",
             "training.batch_size=8", "training.log_every=2", "training.log_gradients=true", "objective.queue=16",
             "objective.text_views=caption", "objective.words_ramp=0.5", "training.device=cpu"]  # fmt: skip
    sets = [word for setting in words for word in ("--set", setting)]
    assert main(["train", "declip-scenes", *sets, "--out", str(tmp_path / "run")]) == 0
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if "loss" in record]
    assert [record["step"] for record in records] == [2, 4]
    for record in records:
        assert {f"gradient/{term}" for term in ("contrastive", "simsiam", "words", "nearest")} <= set(record)
        assert record["gradient/words"] > 0
    assert records[0]["weight/words"] == pytest.approx(0.2 * (1 / 3) / 0.5)
