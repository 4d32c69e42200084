"""Multi(n, m): both towers and their readout written out from the paper, and what must not change a result."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from small_model import FortyWords, random_batch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.data.preprocess import Preprocess
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS, TextTransformer, ViT
from equipoise.encoders.transformer import Transformer
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.objectives import CLIP
from equipoise.readouts import ClassToken, ClassTokens
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Batch, Embeddings, Features, UserError

N, M = 3, 4


def multi(readout=ClassTokens, n: int = N, m: int = M, **vit: float) -> Model:
    torch.manual_seed(0)
    model = Model(
        image=ViT.Config(patch=8, width=16, layers=2, heads=2, **vit),
        text=TextTransformer.Config(causal=False, width=16, layers=2, heads=2),
        readout=readout.Config(),
        space=ProductSphere(n, m),
        temperature=LogitScale(),
        preprocess=Preprocess(size=16),
        tokens=FortyWords(),
    ).double()
    for name, parameter in model.named_parameters():  # biases too, and positions that matter
        if name != "logit_scale":
            nn.init.normal_(parameter, std=0.3)
    return model


def blocks_aloud(tower: Transformer, x: list[Tensor]) -> list[Tensor]:
    """Tokens of one sample, each a vector, a token and a head at a time."""
    for block in tower.blocks:
        heads, width = block.attention.heads, len(x[0])
        qkv = [block.attention.qkv(block.ln_1(token)).view(3, heads, width // heads) for token in x]
        seen = []
        for q, _, _ in qkv:
            parts = []
            for head in range(heads):
                scores = torch.stack([q[head] @ k[head] / math.sqrt(width // heads) for _, k, _ in qkv])
                shares = scores.exp() / scores.exp().sum()
                parts.append(sum(share * v[head] for share, (_, _, v) in zip(shares, qkv, strict=True)))
            seen.append(block.attention.out(torch.cat(parts)))
        x = [token + further for token, further in zip(x, seen, strict=True)]
        x = [token + block.mlp_out(F.gelu(block.mlp_in(block.ln_2(token)))) for token in x]
    return x


def spheres_aloud(classes: list[Tensor], projection: Tensor) -> Tensor:
    """Fig. 6: one projection for all class tokens, each normalised by itself."""
    parts = [token @ projection for token in classes]
    return torch.cat([part / part.square().sum().sqrt() for part in parts])


def image_aloud(model: Model, image: Tensor) -> Tensor:
    vit = model.image_encoder
    patches = [image[:, top : top + 8, left : left + 8] for top in (0, 8) for left in (0, 8)]
    x = [vit.class_token[k] + vit.positions[k] for k in range(M)]
    x += [
        (vit.patches.weight * patch).sum((1, 2, 3)) + vit.positions[M + number] for number, patch in enumerate(patches)
    ]
    x = blocks_aloud(vit.transformer, [vit.ln_pre(token) for token in x])
    return spheres_aloud([vit.ln_post(token) for token in x[:M]], model.image_readout.projection)


def text_aloud(model: Model, ids: list[int]) -> Tensor:
    """`ids` start with the class token; m - 1 copies come before it, at the first positions."""
    text = model.text_encoder
    whole = [ids[0]] * (M - 1) + ids
    x = [text.words.weight[number] + text.positions[place] for place, number in enumerate(whole)]
    x = blocks_aloud(text.transformer, x)
    return spheres_aloud([text.ln_final(token) for token in x[:M]], model.text_readout.projection)


def expected_points(model: Model, batch: Batch) -> Embeddings:
    texts = [row[:length].tolist() for row, length in zip(batch.tokens, batch.mask.sum(1), strict=True)]
    return Embeddings(
        torch.stack([image_aloud(model, image) for image in batch.images]),
        torch.stack([text_aloud(model, ids) for ids in texts]),
    )


def loss_of(points: Embeddings, space: Space) -> Tensor:
    return CLIP(impl="eager")(points, log_scale=1.0, space=space).total


def test_both_towers_are_the_paper_read_aloud_and_so_are_their_gradients():
    model, batch = multi().eval(), random_batch(5)
    found, expected = model(batch), expected_points(model, batch)
    torch.testing.assert_close(found.image, expected.image, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.text, expected.text, rtol=0, atol=1e-12)
    weights = {name: p for name, p in model.named_parameters() if name != "logit_scale"}
    grads = [torch.autograd.grad(loss_of(points, model.space), weights.values()) for points in (found, expected)]
    for name, ours, aloud in zip(weights, *grads, strict=True):
        torch.testing.assert_close(ours, aloud, rtol=0, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")


def test_the_loss_is_that_of_figure_6():
    """einsum('inm,jnm->ij') times exp(t), cross-entropy both ways."""
    model, batch = multi().eval(), random_batch(4)
    points = model(batch)
    u, v = (x.view(4, M, N) for x in (points.image, points.text))
    logits = torch.einsum("inm,jnm->ij", u, v) * math.exp(1.0)
    labels = torch.arange(4)
    expected = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    for impl in ("eager", "tiled"):
        found = CLIP(impl=impl)(points, log_scale=1.0, space=model.space).total
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_the_readout_has_the_gradient_of_finite_differences():
    readout = ClassTokens(5, N, M).double()
    classes = torch.randn(2, M, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    space = ProductSphere(N, M)

    def points(classes: Tensor, projection: Tensor) -> Tensor:
        return space.project(torch.func.functional_call(readout, {"projection": projection}, Features(classes)))

    assert torch.autograd.gradcheck(points, (classes, readout.projection))


def test_padding_changes_nothing():
    model, batch = multi().eval(), random_batch(6)
    ids = torch.where(batch.mask, batch.tokens, 7)  # whatever stands there
    points = model(batch).text
    other = Batch(batch.images, ids, batch.mask, batch.index)
    torch.testing.assert_close(model(other).text, points, rtol=0, atol=0)
    for row, length in enumerate(batch.mask.sum(1).tolist()):
        alone = batch.map(lambda t, row=row: t[row : row + 1])
        narrow = Batch(alone.images, alone.tokens[:, :length], alone.mask[:, :length], alone.index)
        torch.testing.assert_close(model(narrow).text[0], points[row], rtol=0, atol=1e-12)


def test_classes_alone_are_those_beside_the_tokens():
    model, batch = multi().eval(), random_batch(4)
    for encoder, inputs in ((model.image_encoder, (batch.images,)), (model.text_encoder, (batch.tokens, batch.mask))):
        whole = encoder(*inputs)
        assert whole.classes.shape == (4, M, 16)
        assert whole.tokens.shape[1] == (4 if encoder is model.image_encoder else batch.tokens.shape[1] - 1)
        torch.testing.assert_close(encoder(*inputs, classes_only=True).classes, whole.classes, rtol=0, atol=1e-12)


def test_changing_places_in_both_towers_leaves_the_loss_as_it_is():
    """Class tokens with their positions; only which sphere is which changes."""
    model, batch = multi().eval(), random_batch(6)
    before = model(batch)
    order = torch.tensor([2, 0, 3, 1])
    with torch.no_grad():
        vit, text = model.image_encoder, model.text_encoder
        vit.class_token.copy_(vit.class_token[order])
        vit.positions[:M] = vit.positions[:M][order]
        text.positions[:M] = text.positions[:M][order]
    after = model(batch)
    moved = before.image.view(6, M, N)[:, order].flatten(1)
    torch.testing.assert_close(after.image, moved, rtol=0, atol=1e-12)
    assert not torch.allclose(after.image, before.image)
    torch.testing.assert_close(loss_of(after, model.space), loss_of(before, model.space), rtol=0, atol=1e-12)
    alone = Embeddings(after.image, before.text)
    assert not torch.allclose(loss_of(alone, model.space), loss_of(before, model.space))


def test_positions_alone_tell_the_class_tokens_of_a_text_apart():
    model, batch = multi().eval(), random_batch(3)
    parts = model(batch).text.view(3, M, N)
    assert (parts[:, 1:] - parts[:, :1]).abs().amax(-1).min() > 1e-3
    with torch.no_grad():
        model.text_encoder.positions[:M] = model.text_encoder.positions[0].clone()
    parts = model(batch).text.view(3, M, N)
    torch.testing.assert_close(parts, parts[:, :1].expand_as(parts), rtol=0, atol=1e-12)


def test_one_token_is_class_token_exactly():
    several, one = (multi(readout, n=12, m=1) for readout in (ClassTokens, ClassToken))
    for (name, ours), (other, theirs) in zip(several.state_dict().items(), one.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(ours, theirs)
    batch = random_batch(4)
    found, expected = several(batch), one(batch)
    assert torch.equal(found.image, expected.image)
    assert torch.equal(found.text, expected.text)


def test_regions_go_behind_all_class_tokens():
    vit = multi().image_encoder
    regions, lengths = torch.randn(2, 3, 16, dtype=torch.float64), (3, 1)
    mask = torch.arange(3) < torch.tensor(lengths)[:, None]
    last = SimpleNamespace(blocks=vit.transformer.blocks[-1:])
    for row, length in enumerate(lengths):
        x = blocks_aloud(last, [vit.ln_pre(token) for token in (*vit.class_token, *regions[row, :length])])
        expected = torch.stack([vit.ln_post(token) for token in x[:M]])
        for classes_only in (True, False):
            found = vit.rear(regions, mask, 1, vit.rear_norm(), classes_only)
            torch.testing.assert_close(found.classes[row], expected, rtol=0, atol=1e-12)
    assert vit.rear(regions, mask, 1, vit.rear_norm()).tokens.shape == (2, 3, 16)


@pytest.mark.parametrize(("micro", "impl", "recompute"), [(4, "eager", False), (5, "tiled", True), (0, "tiled", True)])
def test_micro_batches_tiles_and_recomputing_give_the_same_gradients(micro, impl, recompute):
    def step(micro: int, impl: str, recompute: bool) -> dict[str, Tensor]:
        model = multi().train()
        settings = Training(micro_batch=micro, recompute_activations=recompute)
        Step(model, CLIP(impl=impl), settings, torch.device("cpu"))._backward(random_batch(12))
        return {name: p.grad for name, p in model.named_parameters()}

    whole, parts = step(0, "eager", False), step(micro, impl, recompute)
    for (name, plain), other in zip(whole.items(), parts.values(), strict=True):
        torch.testing.assert_close(other, plain, rtol=0, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")


def test_features_that_have_as_many_class_tokens_serve():
    model = precomputed(classes=M)
    x = torch.randn(2, M + 1, 5)
    expected = [spheres_aloud(list(F.layer_norm(row, (5,))[:M]), model.image_readout.projection) for row in x]
    torch.testing.assert_close(model.encode_image(x), torch.stack(expected))
    with pytest.raises(UserError, match="samples have 1 class tokens"):
        model.encode_image(torch.randn(2, 5))


def precomputed(classes: int) -> Model:
    return Model(
        image=IMAGE_ENCODERS["precomputed"](width=5, classes=classes),
        text=TEXT_ENCODERS["bert-nano"],
        readout=ClassTokens.Config(),
        space=ProductSphere(N, M),
        temperature=LogitScale(),
        preprocess=Preprocess(size=16),
        tokens=FortyWords(),
    )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ClassTokens.Config().class_tokens(Sphere(8)), "Sphere is no product of spheres; set space.name to"),
        (lambda: ClassTokens.Config().build(8, Euclidean(8), "image"), "Euclidean is no product of spheres"),
        (lambda: TEXT_ENCODERS["causal-nano"].build(40, 8, 4), "causal text tower .* 4 class tokens are wanted; set"),
        (lambda: IMAGE_ENCODERS["timm"]().build(32, 4), "timm gives one class token, but 4 are wanted"),
        (lambda: TEXT_ENCODERS["transformers"]("x").build(40, 8, 4), "transformers gives one class token, but 4"),
        (lambda: precomputed(classes=0), "4 class tokens .* but image.classes is 0; give features"),
        (lambda: TEXT_ENCODERS["precomputed"](classes=3).build(0, 0, 4), "but text.classes is 3"),
    ],
)
def test_what_cannot_have_several_class_tokens_says_what_to_do(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()
