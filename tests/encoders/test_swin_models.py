"""A model with a Swin: every readout reads it, a folder holds it, training lowers its loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_model import random_batch, small_swin_model

from equipoise.config import dump, load_run
from equipoise.models.folder import save_model
from equipoise.spaces import ProductSphere, Sphere, TokenSets
from equipoise.training.logging.metrics import read_metrics
from equipoise.types import UserError
from equipoise.workflows import build_model, load, run_recipe

READ = [("class_token", Sphere(16)), ("code_book", Sphere(16)), ("token_set", TokenSets(4, 8))]


@pytest.mark.parametrize(("readout", "space"), READ, ids=[name for name, _ in READ])
def test_readouts_read_it_and_gradients_reach_all_of_it(readout, space):
    model, batch = small_swin_model(space, readout).train(), random_batch(4)
    for name, parameter in model.image_encoder.named_parameters():
        if "ln_" in name:  # at the start blocks pass their input on, and so gradients pass them by
            torch.nn.init.normal_(parameter)
    image = model(batch).image
    assert image.isfinite().all()
    (image * torch.randn_like(image)).sum().backward()
    assert [name for name, p in model.image_encoder.named_parameters() if not p.grad.any()] == []
    with torch.no_grad():
        alone = model.eval().image_points(batch.images[:1])
        torch.testing.assert_close(alone, model.image_points(batch.images)[:1], rtol=0, atol=1e-12)


def test_several_class_tokens_are_refused_with_a_sentence():
    with pytest.raises(UserError, match=r"Swin's mean over places gives one class token"):
        small_swin_model(ProductSphere(4, 4), "class_tokens")


def test_softclips_regions_are_refused_with_a_sentence(tokens):
    run = load_run("softclip-scenes", ["image.name=swin-nano"]).run
    with pytest.raises(UserError, match=r"Swin cannot read regions, .* set regions\.width to 0"):
        build_model(run, tokens)


def test_a_folder_gives_the_model_back(tmp_path: Path, tokens, scenes):
    loaded = load_run("fdt-swin-scenes", ["readout.codes=24"])
    model = build_model(loaded.run, tokens).eval()
    save_model(model, tmp_path / "model", dump(loaded.table), {})
    again, pictures = load(tmp_path / "model"), scenes.images(range(3), 48)
    assert torch.equal(again.encode_image(pictures), model.encode_image(pictures))
    torch.testing.assert_close(again.encode_image(pictures[:1]), model.encode_image(pictures)[:1])


@pytest.mark.slow
def test_a_run_lowers_its_loss(tmp_path: Path) -> None:
    settings = [
        "data.train_size=16", "data.validation_size=4", "data.test_size=4", "data.max_things=1",
        "data.noise.shuffled=0", "tokens.vocabulary=600", "image.width=16", "image.layers=[2, 1]", "text.layers=1",
        "space.dim=16", "readout.codes=24", "readout.scale=0.1", "training.steps=16", "training.warmup_steps=2",
        "training.learning_rate=5e-3", "training.batch_size=16", "training.recompute_activations=true",
        "training.log_every=1", "training.evaluate_every=0",
    ]  # fmt: skip
    run = tmp_path / "run"
    assert run_recipe("fdt-swin-scenes", settings, run, "equipoise train fdt-swin-scenes") == 0
    losses = [record["loss"] for record in read_metrics(run / "metrics.jsonl") if "loss" in record]
    assert sum(losses[-3:]) / 3 < 0.8 * sum(losses[:3]) / 3
    assert load(run).encode_text("a red fish").isfinite().all()
