"""Multi-modal prompts against the published forward pass written out slowly; folders, training, refusals."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from small_model import FortyWords, objective_named, random_batch
from torch import Tensor
from torch.nn import functional as F

import equipoise as eq
from equipoise.citations import bibliography
from equipoise.cli import main
from equipoise.config import Loaded, dump, load_run
from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders import TextTransformer, ViT
from equipoise.encoders.dense_vit import FinerViT
from equipoise.encoders.packing import Padded
from equipoise.models.folder import save_model
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.models.prompts import Prompts
from equipoise.readouts import READOUTS
from equipoise.spaces import ProductSphere, Sphere
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import UserError
from equipoise.workflows import build_model

LITTLE = ("data.train_size=16", "data.validation_size=4", "data.test_size=4", "data.cache=false")


def prompted(length: int = 2, depth: int = 2, readout: str = "class_token", replaced: bool = False) -> Model:
    torch.manual_seed(3)
    several = readout == "class_tokens"
    return Model(
        image=ViT.Config(patch=8, width=24, layers=3, heads=2, activation="quick_gelu"),
        text=TextTransformer.Config(causal=not several, width=16, layers=3, heads=2),
        readout=READOUTS[readout](),
        space=ProductSphere(4, 4) if several else Sphere(16),
        temperature=LogitScale(),
        preprocess=Preprocess(size=16),
        tokens=FortyWords(),  # type: ignore[arg-type]
        prompts=Prompts.Config(length, depth, replaced),
    ).double()


def norm(x: Tensor, layer: torch.nn.LayerNorm) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / ((x - mean).square().mean(-1, keepdim=True) + layer.eps).sqrt() * layer.weight + layer.bias


def block_aloud(block: torch.nn.Module, x: Tensor, causal: bool) -> Tensor:
    """One block over one sample [L, w], head by head."""
    w, heads = x.shape[1], block.attention.heads
    q, k, v = (norm(x, block.ln_1) @ block.attention.qkv.weight.T + block.attention.qkv.bias).split(w, dim=1)
    d, mixed = w // heads, []
    for h in range(heads):
        part = slice(h * d, (h + 1) * d)
        scores = q[:, part] @ k[:, part].T / math.sqrt(d)
        if causal:
            scores = scores + torch.full_like(scores, -math.inf).triu(1)
        mixed.append(scores.softmax(1) @ v[:, part])
    x = x + torch.cat(mixed, 1) @ block.attention.out.weight.T + block.attention.out.bias
    hidden = norm(x, block.ln_2) @ block.mlp_in.weight.T + block.mlp_in.bias
    return x + block.act(hidden) @ block.mlp_out.weight.T + block.mlp_out.bias


def image_aloud(model: Model, image: Tensor, length: int, depth: int) -> tuple[Tensor, Tensor]:
    """Class features and patches of one picture, as the authors' VisionTransformer_MaPLe goes."""
    tower, prompts = model.image_encoder, model.prompts
    x = F.conv2d(image[None], tower.patches.weight, stride=8)[0].flatten(1).T
    x = torch.cat([tower.class_token, x]) + tower.positions
    coupled = [prompts.tokens[k] @ prompts.maps[k].weight.T + prompts.maps[k].bias for k in range(depth)]
    x = norm(torch.cat([x, coupled[0]]), tower.ln_pre)
    for number, block in enumerate(tower.blocks(), 1):
        if 2 <= number <= depth:
            x = torch.cat([x[: len(x) - length], coupled[number - 1]])
        x = block_aloud(block, x, causal=False)
    return norm(x[: tower.classes], tower.ln_post), x[tower.classes : len(x) - length]


def text_aloud(model: Model, ids: Tensor, length: int, depth: int, taken: int = 0) -> tuple[Tensor, Tensor]:
    """Read-out features and words of one text without padding, as the authors' TextEncoder goes; its first `taken`
    words are replaced by the prompts."""
    tower, prompts, m = model.text_encoder, model.prompts, model.text_encoder.classes
    e = tower.words(torch.cat([ids[:1].expand(m - 1), ids]))
    x = torch.cat([e[:m], prompts.tokens[0], e[m + taken :]])
    x = x + tower.positions[: len(x)]
    for number, block in enumerate(tower.blocks(), 1):
        if 2 <= number <= depth:
            x = torch.cat([x[:m], prompts.tokens[number - 1], x[m + length :]])
        x = block_aloud(block, x, causal=tower.config.causal)
    x = norm(x, tower.ln_final)
    causal = tower.config.causal
    words = torch.cat([x[:m], x[m + length :]])[0 if causal else m :]
    return (x[-1:] if causal else x[:m]), words


@pytest.mark.parametrize("readout", ["class_token", "class_tokens"])
@pytest.mark.parametrize(("length", "depth"), [(2, 1), (2, 2), (1, 3), (3, 3)])
@pytest.mark.parametrize("padded", [False, True])
def test_both_towers_equal_the_published_forward_pass(length, depth, readout, padded):
    model, batch = prompted(length, depth, readout).eval(), random_batch(5)
    if padded:
        model.text_encoder.lay_out = Padded.of
    whole = {"image": model.image_encoder(batch.images), "text": model.text_encoder(batch.tokens, batch.mask)}
    some = {
        "image": model.image_encoder(batch.images, classes_only=True),
        "text": model.text_encoder(batch.tokens, batch.mask, classes_only=True),
    }
    for i in range(5):
        ids = batch.tokens[i, batch.mask[i]]
        expected = {
            "image": image_aloud(model, batch.images[i], length, depth),
            "text": text_aloud(model, ids, length, depth),
        }
        for tower, (classes, tokens) in expected.items():
            torch.testing.assert_close(whole[tower].classes[i], classes, rtol=0, atol=1e-10)
            torch.testing.assert_close(some[tower].classes[i], classes, rtol=0, atol=1e-10)
            real = whole[tower].mask[i]
            assert int(real.sum()) == len(tokens)
            torch.testing.assert_close(whole[tower].tokens[i, real], tokens, rtol=0, atol=1e-10)


@pytest.mark.parametrize("readout", ["class_token", "class_tokens"])
@pytest.mark.parametrize("padded", [False, True])
def test_prompts_may_replace_words_as_the_authors_do(readout, padded):
    """X X of a CLASS: the first words of a text give way, so that no place is needed for them."""
    model, batch = prompted(2, 3, readout, replaced=True).eval(), random_batch(5)
    batch = replace(batch, mask=torch.arange(8) < torch.tensor([[4], [8], [5], [6], [8]]))
    assert model.text_encoder.context == 8 + model.text_encoder.classes - 1
    if padded:
        model.text_encoder.lay_out = Padded.of
    whole = model.text_encoder(batch.tokens, batch.mask)
    other = batch.tokens.clone()
    other[:, 1:3] = (other[:, 1:3] + 7) % 40  # words that nobody reads
    torch.testing.assert_close(model.text_encoder(other, batch.mask).classes, whole.classes, rtol=0, atol=0)
    for i in range(5):
        classes, words = text_aloud(model, batch.tokens[i, batch.mask[i]], 2, 3, taken=2)
        torch.testing.assert_close(whole.classes[i], classes, rtol=0, atol=1e-10)
        assert int(whole.mask[i].sum()) == len(words)
        torch.testing.assert_close(whole.tokens[i, whole.mask[i]], words, rtol=0, atol=1e-10)
    with pytest.raises(UserError, match=r"prompts\.replace takes the first 2 tokens"):
        model.text_encoder(batch.tokens, torch.arange(8) < torch.tensor([[3], [8], [5], [6], [8]]))
    with pytest.raises(UserError, match=r"prompts\.replace takes"):
        model.text_encoder(batch.tokens[:, :3], batch.mask[:, :3])


def test_a_finer_look_sees_prompts_too():
    model, batch = prompted(2, 3).eval(), random_batch(2)
    found = FinerViT(model.image_encoder, 8)(batch.images)
    torch.testing.assert_close(found.classes, model.image_encoder(batch.images).classes, rtol=0, atol=1e-10)
    assert found.tokens.shape[1] == 4


@pytest.mark.slow
def test_compiled_copied_and_recomputed_the_same():
    model, batch = prompted(2, 3), random_batch(4)
    plain = model(batch)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")(batch)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        copied.prompts.tokens[0].add_(1)  # of the copy alone
    model.train()
    for tower in (model.image_encoder, model.text_encoder):
        tower.recompute_activations(True)
    again = model(batch)
    for role in ("image", "text"):
        torch.testing.assert_close(getattr(compiled, role), getattr(plain, role), rtol=0, atol=1e-12)
        torch.testing.assert_close(getattr(again, role), getattr(plain, role), rtol=0, atol=1e-12)
        assert not torch.equal(getattr(copied(batch), role), getattr(plain, role))
    (again.image.sum() + again.text.sum()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.prompts.parameters())


def test_gradients_reach_prompts_through_both_towers():
    model, batch = prompted(1, 2), random_batch(2)
    context = model.prompts.tokens[1]

    def loss(values: Tensor) -> Tensor:
        with torch.no_grad():
            context.copy_(values)
        found = model(batch)
        return (found.image * found.text.roll(1, 1)).sum()

    start = context.detach().clone()
    loss(start).backward()
    for k in range(0, 16, 5):
        step = torch.zeros_like(start)
        step[0, k] = 1e-5
        slope = float((loss(start + step) - loss(start - step)).detach()) / 2e-5
        assert float(context.grad[0, k]) == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("objective", ["clip", "unmix"])
def test_prompts_and_maps_alone_are_trained_also_in_micro_batches(objective):
    after = []
    for micro in (0, 2):
        model = prompted(2, 2).train()
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        settings = Training(trains="added", learning_rate=1e-2, warmup_steps=0, micro_batch=micro)
        model.logit_scale.requires_grad_(False)
        step = Step(model, objective_named(objective), settings, torch.device("cpu"))
        for number in (1, 2):
            step(random_batch(6, number), number)
        moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
        assert moved == {name for name in before if name.startswith("prompts.")}
        after.append({name: p.detach() for name, p in model.named_parameters()})
    for name, tensor in after[0].items():
        torch.testing.assert_close(after[1][name], tensor, rtol=0, atol=1e-9)


def little(*more: str) -> tuple[Loaded, Model]:
    loaded = load_run(
        "clip-scenes",
        [*LITTLE, "image.name=vit-nano", "text.name=causal-nano", "space.dim=16", "tokens.context=24", *more],
    )
    source = loaded.run.data.build("train")
    captions = [caption for index in range(len(source)) for caption in source.pair(index).captions]
    torch.manual_seed(0)
    return loaded, build_model(loaded.run, CaptionTokenizer.from_config(load_run("clip-scenes",
    ["tokens.context=24"]).run.tokens,
                                                              ["a photo of a fish", *captions]))  # fmt: skip


PROMPTS = ("prompts.length=2", "prompts.depth=2")


def test_a_folder_holds_its_prompts_bit_for_bit_and_exports_refuse(tmp_path, capsys):
    loaded, model = little(*PROMPTS)
    assert model.tokenizer.context == 22
    assert model.text_encoder.context == 24
    save_model(model.eval(), tmp_path / "model", dump(loaded.table), {})
    again = eq.load(tmp_path / "model")
    assert again.tokens.context == 22
    texts = ["a red fish " * 20, "a blue star"]
    images = (torch.rand(2, 3, 32, 32) * 255).to(torch.uint8)
    size = model.preprocess.size
    images = F.interpolate(images.float(), (size, size)).to(torch.uint8)
    assert torch.equal(again.encode_text(texts), model.encode_text(texts))
    assert torch.equal(again.encode_image(images), model.encode_image(images))
    for format in ("open_clip", "transformers"):
        assert main(["export", str(tmp_path / "model"), "--to", format, "--out", str(tmp_path / format)]) == 2
        assert "its towers have prompts" in capsys.readouterr().err
        assert not (tmp_path / format).exists()


@pytest.mark.slow
def test_onnx_has_prompts(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")  # which checks what was written against the model
    loaded, model = little(*PROMPTS)
    save_model(model, tmp_path / "model", dump(loaded.table), {})
    assert main(["export", str(tmp_path / "model"), "--to", "onnx", "--out", str(tmp_path / "onnx")]) == 0


def test_prompts_start_from_the_words_of_the_model_they_are_added_to():
    _, plain = little()
    loaded, model = little(*PROMPTS)
    assert not model.load_state_dict(plain.state_dict(), strict=False).unexpected_keys
    ids = model.tokenizer("a photo of a")[0][0, 1:3]
    assert torch.equal(model.prompts.tokens[0], plain.text_encoder.words.weight[ids])
    assert torch.equal(model.text_encoder.positions, plain.text_encoder.positions)
    assert model.prompts.tokens[1].std().item() == pytest.approx(0.02, rel=0.3)
    many = little("prompts.length=9", "prompts.depth=1")[1]
    before = many.prompts.tokens[0].detach().clone()
    many.load_state_dict(plain.state_dict(), strict=False)
    assert torch.equal(many.prompts.tokens[0], before)  # the phrase is too short
    assert model.load_state_dict(model.state_dict()).missing_keys == []
    deep = prompted(2, 3).prompts.maps
    assert torch.equal(deep[1].weight, deep[2].weight)
    assert not torch.equal(deep[0].weight, deep[1].weight)
    assert "khattak2023maple" in bibliography(loaded.run)
    assert "khattak2023maple" not in bibliography(load_run("clip-scenes").run)


def test_mistakes_are_sentences():
    with pytest.raises(UserError, match=r"prompts\.depth is 9"):
        prompted(2, 9)
    with pytest.raises(UserError, match="length must be at least 0"):
        Prompts.Config(-1)
    with pytest.raises(UserError, match="depth must be at least 1"):
        Prompts.Config(2, 0)
    for image, name in (("resnet-nano", "ResNet"), ("swin-nano", "Swin"), ("precomputed", "PrecomputedImage")):
        with pytest.raises(UserError, match=f"image is a {name}, which takes no prompts"):
            little("prompts.length=2", "prompts.depth=1", f"image.name={image}", "preprocess.size=64")
    with pytest.raises(UserError, match="but 4 prompts leave 4 of it to captions"):
        load_run("clip-scenes", ["tokens.context=8", "prompts.length=4"])
    with pytest.raises(UserError, match=r"4 prompts leave .*\(space\.m\)"):
        load_run("scenes-multi-64x8", ["tokens.context=10", "prompts.length=4"])
