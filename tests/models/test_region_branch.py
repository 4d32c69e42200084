"""The guide branch: regions through the rear of the image tower, tags through the text tower."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from equipoise.config import load_run
from equipoise.data.batches import Batches
from equipoise.data.scenes.detector import WIDTH
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders import IMAGE_ENCODERS
from equipoise.encoders.packing import Even
from equipoise.models.model import Model
from equipoise.models.region_branch import RegionBranch
from equipoise.objectives import SoftCLIP
from equipoise.targets import GUIDES
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Batch, UserError
from equipoise.workflows import build_model


@pytest.fixture(scope="module")
def guided(tiny_settings) -> tuple[Model, Batch]:
    settings = [*tiny_settings, "image.layers=2", "training.batch_size=16"]
    run = load_run("softclip-scenes", settings).run
    source = run.data.build("train")
    tokens = CaptionTokenizer.from_config(run.tokens, (c for i in range(len(source)) for c in source.pair(i).captions))
    torch.manual_seed(0)
    return build_model(run, tokens).eval(), Batches(source, tokens, run.preprocess, batch_size=16, seed=0).batch(0)


@pytest.fixture(scope="module")
def guided_resnet(tiny_settings) -> tuple[Model, Batch]:
    settings = [each for each in tiny_settings if not each.startswith("image.")]
    run = load_run("softclip-resnet-scenes", [*settings, "preprocess.size=32", "training.batch_size=16"]).run
    source = run.data.build("train")
    tokens = CaptionTokenizer.from_config(run.tokens, (c for i in range(len(source)) for c in source.pair(i).captions))
    torch.manual_seed(0)
    return build_model(run, tokens).eval(), Batches(source, tokens, run.preprocess, batch_size=16, seed=0).batch(0)


def test_regions_pass_a_resnets_attention_pool_alone(guided_resnet):
    """PyramidCLIP's branch for ResNets: their mean before the regions, a LayerNorm, the pool without positions."""
    model, batch = guided_resnet
    tower, expected = model.image_encoder, []
    seen = model(batch, ("image", "text", "regions"))
    for regions, real in zip(batch.side["regions"], batch.side["region_mask"], strict=True):
        x = regions[real] @ model.regions.map
        x = model.regions.norm(torch.cat([x.mean(0, keepdim=True), x]))
        expected.append(tower.pool.attention(x[None], Even())[0, 0] @ model.image_readout.projection)
    torch.testing.assert_close(seen.regions, model.space.project(torch.stack(expected)))


def test_gradients_reach_the_map_the_norm_and_the_pool_but_no_convolution(guided_resnet):
    model, batch = guided_resnet
    model = copy.deepcopy(model)
    torch.manual_seed(0)
    points = model(batch, ("image", "text", "regions")).regions
    (points * torch.randn_like(points)).sum().backward()
    reached = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    pool = {f"image_encoder.pool.attention.qkv.{kind}" for kind in ("weight", "bias")}
    assert reached == {"regions.map", "regions.norm.weight", "regions.norm.bias", "image_readout.projection", *pool}
    assert all(parameter.grad.any() for name, parameter in model.named_parameters() if name in reached)


def test_regions_pass_only_the_rear(guided):
    """PyramidCLIP's branch, written out with the tower's own parts."""
    model, batch = guided
    tower = model.image_encoder
    seen = model(batch, ("image", "text", "regions"))
    x = batch.side["regions"] @ model.regions.map
    x = tower.ln_pre(torch.cat([tower.class_token.expand(16, -1, -1), x], dim=1))
    real = F.pad(batch.side["region_mask"], (1, 0), value=True)
    block = tower.transformer.blocks[-1]  # one of two
    alone = [block(tokens[mask][None], Even(), False)[0, 0] for tokens, mask in zip(x, real, strict=True)]
    expected = model.space.project(tower.ln_post(torch.stack(alone)) @ model.image_readout.projection)
    torch.testing.assert_close(seen.regions, expected)


def test_tags_are_read_as_a_caption_is(guided):
    model, batch = guided
    source_tags = model.tokenizer(["red fish, blue star"])
    side = {"tags": F.pad(source_tags[0], (0, 9)), "tags_mask": F.pad(source_tags[1], (0, 9))}
    one = Batch(batch.images[:1], batch.tokens[:1], batch.mask[:1], batch.index[:1], side)
    tags = model(one, ("image", "text", "tags")).tags
    torch.testing.assert_close(tags, model.encode_text("red fish, blue star"))


@pytest.mark.parametrize("tower", ["guided", "guided_resnet"])
def test_padding_of_regions_changes_nothing(tower, request):
    model, batch = request.getfixturevalue(tower)
    regions, mask = batch.side["regions"], batch.side["region_mask"]
    wider = {**batch.side, "regions": F.pad(regions, (0, 0, 0, 3), value=7.0), "region_mask": F.pad(mask, (0, 3))}
    padded = Batch(batch.images, batch.tokens, batch.mask, batch.index, wider)
    roles = ("image", "text", "regions")
    torch.testing.assert_close(model(padded, roles).regions, model(batch, roles).regions)


def test_a_step_moves_the_new_map_and_the_shared_towers(guided, tiny_settings):
    model, batch = guided
    run = load_run("softclip-scenes", [*tiny_settings, "image.layers=2", "training.steps=200"]).run
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    facts = Step(model.train(), run.objective, run.training, torch.device("cpu"))(batch, 50)
    model.eval()
    assert set(facts.loss.terms) == {"soft", "relation", "contrastive"}
    assert all(value.isfinite() for value in facts.loss.terms.values())
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved >= {"regions.map", "image_encoder.class_token", "image_readout.projection", "logit_scale"}


def test_micro_batches_give_the_gradients_of_the_whole(guided, tiny_settings):
    model, batch = guided
    grads = []
    for micro in (0, 5):
        run = load_run("softclip-scenes", [*tiny_settings, "image.layers=2", f"training.micro_batch={micro}"]).run
        step = Step(model.train(), run.objective, run.training, torch.device("cpu"))
        model.zero_grad()
        step._backward(batch)
        grads.append({name: p.grad.clone() for name, p in model.named_parameters()})
    model.eval()
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad, rtol=1e-3, atol=1e-6, msg=name)


def test_what_cannot_be_made_gets_a_sentence(guided, model, batches):
    with pytest.raises(UserError, match=r"cannot produce regions, .*regions\.width"):
        model(batches.batch(0), ("image", "text", "regions"))
    with pytest.raises(UserError, match="the objective looks at tags"):
        model(batches.batch(0), ("image", "text", "tags"))
    bare = replace(guided[1], side={})
    with pytest.raises(UserError, match="the objective looks at regions"):
        guided[0](bare, ("image", "text", "regions"))
    with pytest.raises(UserError, match="blocks is 9, but the image tower has 3"):
        RegionBranch.Config(width=8, blocks=9).build(IMAGE_ENCODERS["vit-nano"].build(32))
    with pytest.raises(UserError, match="PrecomputedImage cannot read regions"):
        RegionBranch.Config(width=8).build(IMAGE_ENCODERS["precomputed"]().build(32))


def test_without_a_width_there_is_no_branch(model):
    assert model.regions is None
    assert not [name for name, _ in model.named_parameters() if name.startswith("regions")]
    assert WIDTH == 196


@pytest.mark.parametrize("micro", [0, 5])
def test_a_guide_without_gradient_trains_nothing_of_its_branch(guided, micro):
    """Under DDP a parameter that waits for a gradient would end the run."""
    model, batch = guided
    model = copy.deepcopy(model).train()
    before = model.regions.map.detach().clone()
    softclip = SoftCLIP(guide=replace(GUIDES["regions_tags"], stop_gradient=True))
    assert softclip.trains == ("image", "text")
    assert "regions" in softclip.needs
    step = Step(model, softclip, Training(micro_batch=micro, warmup_steps=0), torch.device("cpu"))
    step(batch, 1)
    assert torch.equal(model.regions.map, before)
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
