"""The scale of a code book by a wanted share of active codes, before training and in a run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import equipoise as eq
from equipoise.config import dump, load_run
from equipoise.data.batches import Batches
from equipoise.models.code_scale import gain_for, set_code_scale
from equipoise.models.folder import save_model
from equipoise.readouts import CodeBook, CodeBookReadout
from equipoise.types import UserError
from equipoise.workflows import build_model, run_recipe


def support(scores: list[float]) -> int:
    """How many entries sparsemax leaves, by its definition."""
    ordered = sorted(scores, reverse=True)
    return max(j for j in range(1, len(ordered) + 1) if 1 + j * ordered[j - 1] > sum(ordered[:j]))


@pytest.mark.parametrize("active", [0.02, 0.29, 0.8])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 40.0])
def test_the_gain_leaves_the_wanted_share(active, spread):
    relevance = spread * torch.randn(12, 200, generator=torch.Generator().manual_seed(0)).double()
    gain = gain_for(relevance, active)
    left = [support((gain * row).tolist()) for row in relevance]
    assert sum(left) / (12 * 200) == pytest.approx(active, abs=0.005)


@pytest.fixture
def settings(tiny_settings) -> tuple[str, ...]:
    return (*tiny_settings, "readout.codes=200", "readout.active=0.3")


def test_a_model_is_scaled_on_samples_and_keeps_it(settings, tokens, scenes, tmp_path):
    torch.manual_seed(0)
    loaded = load_run("fdt-scenes", settings)
    model = build_model(loaded.run, tokens).eval()
    batch = Batches(scenes, tokens, loaded.run.preprocess, batch_size=16, seed=0).batch(0)
    gain = set_code_scale(model, batch)
    assert isinstance(model.shared, CodeBook)
    assert float(model.shared.gain) == pytest.approx(gain)
    with torch.no_grad():
        image = model.image_readout.weights(model.image_encoder(batch.images), model.shared)
        text = model.text_readout.weights(model.text_encoder(batch.tokens, batch.mask), model.shared)
    share = float((torch.cat([image, text]) > 0).double().mean())
    assert share == pytest.approx(0.3, abs=0.01)
    save_model(model, tmp_path / "model", dump(loaded.table), {})
    again = eq.load(tmp_path / "model")
    assert torch.equal(again.shared.gain, model.shared.gain)
    assert torch.equal(again.encode_text("a red fish"), model.encode_text("a red fish"))


@pytest.mark.slow
def test_a_run_starts_with_the_wanted_share(settings, tmp_path):
    more = ("training.steps=1", "training.learning_rate=0.0", "preprocess.crop_scale=[1.0, 1.0]")
    assert run_recipe("fdt-scenes", (*settings, *more), tmp_path / "run", command="") == 0
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    mean = (first["codes/active_image"] + first["codes/active_text"]) / 2 / 200
    assert mean == pytest.approx(0.3, abs=0.03)
    assert (tmp_path / "run" / "results" / "codes.json").is_file()


def test_without_a_wanted_share_nothing_changes(coded, batches):
    assert coded.shared.gain is None
    assert "shared.gain" not in coded.state_dict()
    assert set_code_scale(coded, batches.batch(0)) is None


def test_nonsense_is_refused():
    with pytest.raises(UserError, match="under softmax all have one"):
        CodeBookReadout.Config(activation="softmax", active=0.3)
    with pytest.raises(UserError, match=r"active must be in \[0, 1\)"):
        replace(CodeBookReadout.Config(), active=1.0)
