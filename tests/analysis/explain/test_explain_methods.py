"""Every method against its formula, written out with loops, on attention and gradients that are found another way."""

from __future__ import annotations

import math

import pytest
import torch
from explained import MODELS, TEXTS, VIT, built, pictures
from torch import Tensor
from torch.nn import functional as F

from equipoise.analysis.explain import METHODS
from equipoise.analysis.explain.attention import Recorded, attend
from equipoise.analysis.explain.grad_cam import grad_cam
from equipoise.analysis.explain.grad_eclip import grad_eclip
from equipoise.analysis.explain.gradient_attention import gradient_attention
from equipoise.analysis.explain.legrad import legrad
from equipoise.analysis.explain.places import image_places
from equipoise.analysis.explain.relevance import relevance
from equipoise.analysis.explain.rollout import rollout
from equipoise.analysis.explain.trace import Layer, Trace, Traced, trace
from equipoise.encoders import ViT
from equipoise.models.model import Model

ATTENDING = [name for name in MODELS if name != "swin"]  # which attends within windows
COMBINATIONS = [(name, method) for name in MODELS for method in METHODS if name in ATTENDING or method == "grad_cam"]


def traced(model: Model, part: tuple[int, ...] = ()) -> Traced:
    ids, mask = model.text_encoder.prepare(TEXTS, None, model.tokenizer)
    return trace(model, pictures(model), ids, mask, mask, part)


@pytest.mark.parametrize("masked", ["", "causal", "bool", "float"])
def test_attention_by_its_definition_is_torchs(masked: str) -> None:
    make = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4, generator=make).double() for _ in range(3))
    real = torch.arange(5) < 3
    options = {
        "": {},
        "causal": {"is_causal": True},
        "bool": {"attn_mask": real[None, None, None]},
        "float": {"attn_mask": torch.randn(5, 5, generator=make).double(), "scale": 0.7},
    }[masked]
    expected = F.scaled_dot_product_attention(q, k, v, **options)
    assert torch.allclose(attend(q, k, v, **options).output, expected)
    with Recorded() as recorded:
        assert torch.allclose(F.scaled_dot_product_attention(q, k, v, **options), expected)
    (layer,) = recorded.layers
    assert torch.allclose(layer.weights.sum(-1), torch.ones(2, 3, 5).double())


@pytest.mark.parametrize("name", MODELS)
def test_what_is_explained_is_the_models_own_similarity(name: str) -> None:
    model = MODELS[name]()
    expected = model.similarity(model.image_points(pictures(model)), model.encode_text(TEXTS)).diagonal()
    assert torch.allclose(traced(model).scores, expected)
    assert "lay_out" not in vars(model.text_encoder)
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(("name", "method"), COMBINATIONS)
def test_shares_of_real_places_and_words_alone(name: str, method: str) -> None:
    model = MODELS[name]()
    found = relevance(model, pictures(model), TEXTS, method)
    for rows in (found.places.flatten(1), found.tokens):
        assert (rows >= 0).all()
        assert torch.isfinite(rows).all()
        for total in rows.sum(1).tolist():
            assert total == pytest.approx(1) or total == 0
    for row, spans in zip(found.tokens, model.tokenizer.word_spans(TEXTS), strict=True):
        silent = [place for place in range(len(row)) if place >= len(spans) or spans[place] is None]
        assert not row[silent].any()  # start, end, comma and padding


@pytest.mark.parametrize(("name", "method"), COMBINATIONS)
def test_a_pair_is_explained_alike_alone_and_in_a_batch(name: str, method: str) -> None:
    """Nor does padding matter: the first text is much shorter than the second."""
    model = MODELS[name]()
    images = pictures(model)
    together, alone = relevance(model, images, TEXTS, method), relevance(model, images[:1], TEXTS[:1], method)
    assert torch.allclose(together.places[0], alone.places[0], atol=1e-9)
    width = alone.tokens.shape[1]
    assert torch.allclose(together.tokens[0, :width], alone.tokens[0], atol=1e-9)


def test_gradients_of_attention_are_those_of_finite_differences() -> None:
    """One weight of the last layer of the image tower moved by hand."""
    model = MODELS["vit"]()
    found = traced(model)
    ids, mask = model.text_encoder.prepare(TEXTS, None, model.tokenizer)
    texts = model.tower("text").points(ids, mask)

    class Moved(Recorded):
        by, where = 0.0, (0, 1, 0, 3)

        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is not F.scaled_dot_product_attention:
                return func(*args, **(kwargs or {}))
            layer = attend(*args, **(kwargs or {}))
            self.layers.append(layer)
            weights = layer.weights.detach().clone()
            if len(self.layers) == 2:
                weights[self.where] += self.by
            return weights @ args[2]

    def score(by: float) -> float:
        with Moved() as moved:
            moved.by = by
            features = model.tower("image").features(pictures(model), with_tokens=True)
        return float(model.space.pairwise(model.tower("image").read(features), texts)[0].detach())

    slope = (score(1e-5) - score(-1e-5)) / 2e-5
    assert float(found.image.layers[-1].grad[Moved.where]) == pytest.approx(slope, rel=1e-5)
    assert abs(slope) > 1e-6


@pytest.mark.parametrize("name", ["vit", "resnet", "swin", "siglip", "filip"])
def test_gradients_of_grad_cams_features_are_those_of_finite_differences(name: str) -> None:
    """All features of the first picture moved in one direction, by a hook on the layer or on what the readout reads."""
    model = MODELS[name]()
    found = traced(model)
    ids, mask = model.text_encoder.prepare(TEXTS, None, model.tokenizer)
    texts = model.tower("text").points(ids, mask)
    tower, places = model.tower("image"), image_places(model.image_encoder)
    layer = tower.readout.projection if name == "filip" else places.layer or model.image_encoder.ln_post
    move = torch.randn(found.image.features[0].shape, generator=torch.Generator().manual_seed(3)).double()

    def change(x: Tensor, by: float) -> Tensor:
        """[N, L, w], [N, S, S, w] or [N, w, S, S] with the first sample moved."""
        x = x.clone()
        if places.maps:
            x[0] += by * move.T.view(x[0].shape)
        elif x.ndim == 4:
            x[0] += by * move.view(x[0].shape)
        else:
            x[0, places.layer_first * (name != "filip") :][: len(move)] += by * move
        return x

    def score(by: float) -> float:
        if name == "filip":
            handle = layer.register_forward_pre_hook(lambda _, inputs: (change(inputs[0], by),))
        else:
            handle = layer.register_forward_hook(lambda *call: change(call[2], by))
        with torch.no_grad():
            points = tower.read(tower.features(pictures(model), with_tokens=True))
        handle.remove()
        return float(model.space.pairwise(points, texts)[0].detach())

    slope = (score(1e-5) - score(-1e-5)) / 2e-5
    assert float((found.image.features_grad[0] * move).sum()) == pytest.approx(slope, rel=1e-5)
    assert abs(slope) > 1e-7


def loops_of_grad_cam(trace: Trace, n: int) -> list[float]:
    features, grads = trace.features[n].tolist(), trace.features_grad[n].tolist()
    real = [place for place, yes in enumerate(trace.real[n].tolist()) if yes]
    width = len(features[0])
    alpha = [sum(grads[i][k] for i in real) / len(real) for k in range(width)]
    return [max(0.0, sum(alpha[k] * row[k] for k in range(width))) for row in features]


def readers(layer: Layer, n: int) -> list[float]:
    norms = [
        math.sqrt(sum(value**2 for head in layer.output_grad[n] for value in head[i].tolist()))
        for i in range(layer.output_grad.shape[2])
    ]
    return [norm / sum(norms) for norm in norms]


def loops_of_gradient_attention(trace: Trace, n: int, layers: int) -> list[float]:
    chosen = trace.layers[-layers:]
    size = chosen[0].weights.shape[-1]
    passed = [[float(i == j) for j in range(size)] for i in range(size)]
    for layer in chosen:
        a, g = layer.weights[n].tolist(), layer.grad[n].tolist()
        heads, rows = len(a), len(a[0])
        e = [[sum(max(0.0, a[h][i][j] * g[h][i][j]) for h in range(heads)) / heads for j in range(size)]
             for i in range(rows)]  # fmt: skip
        step = [[sum(e[i][k] * passed[k][j] for k in range(size)) for j in range(size)] for i in range(rows)]
        if rows == size:
            step = [[passed[i][j] + step[i][j] for j in range(size)] for i in range(size)]
        passed = step
    read = readers(chosen[-1], n)
    return [sum(read[i] * passed[i][j] for i in range(len(read))) for j in trace.columns.tolist()]


def loops_of_rollout(trace: Trace, n: int) -> list[float]:
    rolled: Tensor | None = None
    for layer in trace.layers:
        step = sum(layer.weights[n, h] for h in range(layer.weights.shape[1])) / layer.weights.shape[1]
        if step.shape[0] == step.shape[1]:
            step = step + torch.eye(len(step)).double()
            step = torch.stack([row / row.sum() for row in step])
        rolled = step if rolled is None else step @ rolled
    read = readers(trace.layers[-1], n)
    return [sum(read[i] * float(rolled[i, j]) for i in range(len(read))) for j in trace.columns.tolist()]


def loops_of_legrad(trace: Trace, n: int, layers: int) -> list[float]:
    result = []
    for j in trace.columns.tolist():
        total = 0.0
        for layer in trace.layers[-layers:]:
            a, g = layer.weights[n], layer.grad[n]
            pairs = [(h, i) for h in range(a.shape[0]) for i in range(a.shape[1])]
            total += sum(max(0.0, float(g[h, i, j])) for h, i in pairs if a[h, i, j] > 0) / len(pairs)
        result.append(total)
    return result


def loops_of_grad_eclip(trace: Trace, n: int) -> list[float]:
    layer, columns = trace.layers[-1], trace.columns.tolist()
    real = [place for place, yes in enumerate(trace.real[n].tolist()) if yes]
    total = [0.0] * len(columns)
    for i in range(layer.weights.shape[2]):
        q = layer.queries[n, :, i].flatten()
        cosines = [float(torch.cosine_similarity(q, layer.keys[n, :, j].flatten(), dim=0)) for j in columns]
        low, high = min(cosines[place] for place in real), max(cosines[place] for place in real)
        for place, j in enumerate(columns):
            seen = [h for h in range(layer.weights.shape[1]) if layer.weights[n, h, i, j] > 0]
            total[place] += (cosines[place] - low) / (high - low) * sum(float(layer.grad[n, h, i, j]) for h in seen)
    return [max(0.0, value) for value in total]


@pytest.mark.parametrize("name", ATTENDING)
def test_methods_are_their_formulas(name: str) -> None:
    model = MODELS[name]()
    found = traced(model)
    for one in (found.image, found.text):
        for n in range(2):
            real = one.real[n]
            pairs = [
                (grad_cam(one), loops_of_grad_cam(one, n)),
                (gradient_attention(one), loops_of_gradient_attention(one, n, 2)),
                (gradient_attention(one, layers=1), loops_of_gradient_attention(one, n, 1)),
                (rollout(one), loops_of_rollout(one, n)),
                (legrad(one), loops_of_legrad(one, n, 2)),
                (grad_eclip(one), loops_of_grad_eclip(one, n)),
            ]
            for number, (values, expected) in enumerate(pairs):
                by_loops = torch.tensor(expected).double()
                assert torch.allclose(values[n][real], by_loops[real], atol=1e-10), number


def test_gradients_through_values_are_those_of_attention() -> None:
    """o = A v: what Grad-ECLIP sums over dimensions is the gradient of attention."""
    model = MODELS["vit"]()
    with Recorded() as recorded:
        features = model.tower("image").features(pictures(model), with_tokens=True)
    score = model.tower("image").read(features)[:, 0].sum()
    last = recorded.layers[-1]
    by_weights, by_output = torch.autograd.grad(score, [last.weights, last.output])
    x = model.image_encoder.transformer.blocks[-1]
    caught: list[Tensor] = []
    with torch.no_grad():
        handle = x.ln_1.register_forward_hook(lambda *a: caught.append(a[2]))
        model.tower("image").features(pictures(model), with_tokens=True)
        handle.remove()
        values = x.attention.qkv(caught[0]).unflatten(-1, (3, 2, -1))[:, :, 2].transpose(1, 2)
    assert torch.allclose(by_weights, by_output @ values.transpose(-2, -1))


def test_only_the_class_token_reads_in_the_last_layer() -> None:
    model = MODELS["vit"]()
    found = traced(model)
    expected = torch.zeros(2, 10).double()
    expected[:, 0] = 1
    assert torch.allclose(found.image.layers[-1].readers, expected)


def test_places_that_are_exchanged_exchange_their_relevance() -> None:
    """Without positions a picture is a set of patches: maps move with them."""
    model = built(VIT, 24)
    with torch.no_grad():
        model.image_encoder.positions.zero_()
    images = pictures(model)
    turned = images.roll(8, dims=-1)  # by one patch to the right
    for method in METHODS:
        first, second = (relevance(model, one, TEXTS, method).places for one in (images, turned))
        assert torch.allclose(first.roll(1, dims=-1), second, atol=1e-9), method


@pytest.mark.parametrize("name", ["vit", "resnet", "swin", "code_book", "one layer"])
def test_frozen_models_are_explained_too(name: str) -> None:
    one = ViT.Config(patch=8, width=16, layers=1, heads=2)
    model = built(one, 24) if name == "one layer" else MODELS[name]()
    before = relevance(model, pictures(model), TEXTS, "grad_cam")
    assert before.places.any()
    model.requires_grad_(False)
    after = relevance(model, pictures(model), TEXTS, "grad_cam")
    assert torch.allclose(after.places, before.places)
    assert torch.allclose(after.tokens, before.tokens)


def test_explaining_leaves_no_gradients_behind() -> None:
    model = MODELS["vit"]()
    relevance(model, pictures(model), TEXTS, "gradient_attention")
    assert all(parameter.grad is None for parameter in model.parameters())
