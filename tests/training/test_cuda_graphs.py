"""Passes recorded as CUDA graphs: refused where they cannot be, and on a GPU the same steps as without."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equipoise.config import load_run
from equipoise.encoders.packing import Packed, Padded
from equipoise.objectives import CLIP
from equipoise.training.cuda_graphs import GraphedModel, _batch_of, _padded, _tensors, require_recordable
from equipoise.training.probe_phase import ProbePhase
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Batch, UserError
from equipoise.workflows.train_model import train_run

SETTINGS = Training(steps=8, batch_size=16, precision="float32", device="cpu", cuda_graphs=True)
GPU = torch.device("cuda")
SMALL = (
    "data.train_size=400", "data.validation_size=40", "data.test_size=40", "training.batch_size=64",
    "training.steps=30",
    "training.warmup_steps=5", "training.evaluate_every=15", "training.precision=float32", "training.loggers=[]",
    "training.log_every=1", "training.checkpoint_every=0",
)  # fmt: skip
DETECTED = ("data.detector.regions=2", "regions.width=196", "regions.blocks=1")
SOFTCLIP = ("objective.name=softclip", "objective.guide.name=regions_tags", "objective.guide.stop_gradient=true")
RUNS = {
    "CLIP": ("demo",),
    "a moving average and dropped patches": ("demo", "training.ema=0.9", "image.patch_dropout=0.25"),
    "class tokens": ("demo", "text.name=bert-nano", "tokens.kind=wordpiece", "space.name=product_sphere", "space.n=8",
                     "space.m=8", "readout.name=class_tokens"),
    "pooled tokens": ("demo", "readout.name=pooled"),
    "FILIP": ("filip-scenes",),
    "SoftCLIP": ("demo", *DETECTED, *SOFTCLIP),
    "a mixup": ("demo", "objective.name=m2mix"),
    "bfloat16": ("demo", "training.precision=bf16"),
}  # fmt: skip

ASKING = {  # how many codes are active, how many words are hidden
    "codes": ("demo", "readout.name=code_book", "readout.codes=64"),
    "DeCLIP": ("declip-scenes",),
    "TCL": ("tcl-scenes",),
    "CoCa": ("coca-scenes",),
}


def test_a_processor_is_refused(model):
    with pytest.raises(UserError, match="cuda_graphs = true needs an NVIDIA GPU, which cpu is not; leave it out"):
        Step(model, CLIP(), SETTINGS, torch.device("cpu"))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"micro_batch": 8}, "training.micro_batch, which passes each batch twice, in parts"),
        ({"recompute_activations": True}, "training.recompute_activations, which passes blocks a second time"),
        ({"log_gradients": True}, "training.log_gradients, which differentiates each term by itself"),
        ({"probe": ProbePhase(share=0.5)}, "training.probe makes it two; leave one out"),
    ],
)
def test_what_changes_the_passes_is_refused(changed, why):
    with pytest.raises(UserError, match=why):
        require_recordable(replace(SETTINGS, **changed), GPU, world=1)


def test_several_processes_are_refused():
    with pytest.raises(UserError, match="is of one process, and there are 2"):
        require_recordable(SETTINGS, GPU, world=2)
    require_recordable(SETTINGS, GPU, world=1)


def test_a_batch_is_taken_apart_and_put_together():
    side, common = {"key": torch.tensor([3, 4])}, {"prompts": torch.ones(5)}
    batch = Batch(
        torch.zeros(2, 3, 4, 4), torch.ones(2, 6), torch.ones(2, 6).bool(), torch.arange(2), side, common=common
    )
    again = _batch_of(_tensors(batch), batch)
    assert again.images is batch.images
    assert again.index is batch.index
    assert again.side["key"] is side["key"]
    assert again.common["prompts"] is common["prompts"]


def test_texts_keep_their_padding_while_they_are_recorded_and_no_longer(model):
    ids, mask = model.tokens(["a red fish", "a fish and a small green tree on the left"])
    with torch.no_grad():
        packed = model.tower("text").points(ids, mask)
        with _padded(model):
            assert model.text_encoder.lay_out == Padded.of
            assert torch.allclose(model.tower("text").points(ids, mask), packed, atol=1e-6)
    assert model.text_encoder.lay_out == Packed.of


def test_compiled_passes_can_be_recorded():
    require_recordable(replace(SETTINGS, compile=True), GPU, world=1)


def test_what_is_recorded_is_the_compiled_model(model):
    compiled = torch.compile(model)  # which has no length, and so no truth
    assert GraphedModel(model, compiled).passes is compiled
    assert GraphedModel(model).passes is model


def logged(name: str, folder, *further: str) -> list[dict[str, float]]:
    recipe, *settings = RUNS[name]
    _, outcome = train_run(load_run(recipe, [*SMALL, *settings, *further]), folder)
    return [record for record in outcome.records if "loss" in record]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", RUNS)
def test_recorded_steps_are_those_of_plain_ones(name, tmp_path):
    plain, recorded = logged(name, tmp_path / "plain"), logged(name, tmp_path / "graphs", "training.cuda_graphs=true")
    assert len(plain) == len(recorded) == 30
    share = 0.03 if name == "bfloat16" else 0.003  # texts with and without padding are summed in another order
    for one, other in zip(plain, recorded, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=share), one["step"]
        if one["step"] == 1:
            assert other["grad_norm"] == pytest.approx(one["grad_norm"], rel=share)
    assert plain[-1]["loss"] < 0.98 * plain[0]["loss"], "a run that learns nothing shows nothing"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["CLIP", "SoftCLIP"])
def test_compiled_and_recorded_steps_are_those_of_plain_ones(name, tmp_path):
    both = ("training.cuda_graphs=true", "training.compile=true")
    plain, recorded = logged(name, tmp_path / "plain"), logged(name, tmp_path / "both", *both)
    for one, other in zip(plain, recorded, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=0.003), one["step"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ASKING)
def test_a_model_that_asks_the_processor_is_told(name, tmp_path):
    recipe, *settings = ASKING[name]
    with pytest.raises(UserError, match="cannot record this model, which asks the processor on its way"):
        train_run(load_run(recipe, [*SMALL, *settings, "training.cuda_graphs=true"]), tmp_path)
    assert torch.randn(2, device=GPU).isfinite().all(), "the next run can draw"
