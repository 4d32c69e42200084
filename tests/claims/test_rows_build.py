"""Every row of every claim is a recipe whose parts fit, and which takes a step: none is to be found out on a GPU."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch

from equipoise.claims import CLAIMS
from equipoise.claims.claim import GPU, Row
from equipoise.config import Run, load_run
from equipoise.data.batches import Batches
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.model import Model
from equipoise.training.ema import EMA
from equipoise.training.step import Step
from equipoise.workflows.claims.cell import cell_of
from equipoise.workflows.claims.plan import trials_of
from equipoise.workflows.load import build_model

FEW = ("data.train_size=64", "training.batch_size=32", "training.device=cpu", "training.steps=4")
ROWS = {
    repr((row.recipe, row.settings)): row
    for claim in CLAIMS.values()
    if not claim.features
    for row in claim.rows
    if row.start is None
}
TRIED = [(row, trial) for row in ROWS.values() for trial in trials_of(row, GPU)]


@lru_cache
def tokens_of(config: CaptionTokenizer.Config) -> CaptionTokenizer:
    return CaptionTokenizer.from_config(config, ["a red fish and a small green tree"] * 2)


def built(row: Row, trial: tuple[str, ...] = ()) -> tuple[Run, Model]:
    run = load_run(row.recipe, [*cell_of(row, trial, 0, GPU).settings, *FEW]).run
    return run, build_model(run, tokens_of(run.caption_tokens()))


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_the_parts_of_a_row_fit(row):
    run, model = built(row)
    Step(model, run.objective, run.training, torch.device("cpu"))


@pytest.mark.slow
@pytest.mark.parametrize(("row", "trial"), TRIED, ids=lambda part: getattr(part, "name", None) or " ".join(part))
def test_every_trial_of_a_row_takes_a_step(row, trial):
    run, model = built(row, trial)
    step = Step(model, run.objective, run.training, torch.device("cpu"))
    batches = Batches(run.data.build("train"), model.tokens, run.preprocess, batch_size=32, seed=0,
                      views=run.objective.views, augment=run.augment)  # fmt: skip
    facts = step(batches.batch(0), 1, EMA(model, run.training.ema) if run.training.ema else None)
    assert torch.isfinite(facts.loss.total)
