"""The code book read aloud: a token and a code at a time, and what must not change a result."""

from __future__ import annotations

import math

import pytest
import torch
from small_model import random_batch, small_model
from torch import Tensor
from torch.nn import functional as F

from equipoise.data.preprocess import Preprocess
from equipoise.data.tokenizer import NoTokenizer
from equipoise.encoders.precomputed import PrecomputedImage, PrecomputedText
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.objectives import CLIP
from equipoise.ops import max_relevance
from equipoise.ops.max_relevance import pooled_relevance
from equipoise.readouts import CodeBook, CodeBookReadout
from equipoise.spaces import Euclidean, ProductSphere, Sphere
from equipoise.types import Features, UserError

W, D, C = 4, 3, 9


def made(tower: str = "text", dim: int = D, **settings: object) -> tuple[CodeBookReadout, CodeBook]:
    torch.manual_seed(0)
    config = CodeBookReadout.Config(codes=C, **settings)  # type: ignore[arg-type]
    space = Sphere(dim)
    return config.build(W, space, tower).double(), config.shared(space).double()


def features(n: int = 3, length: int = 4, seed: int = 1) -> Features:
    make = torch.Generator().manual_seed(seed)
    tokens = torch.randn(n, length, W, generator=make).double()
    mask = torch.arange(length) < torch.randint(1, length + 1, (n, 1), generator=make)
    return Features(classes=tokens[:, :1], tokens=tokens, mask=mask)


def sparsemax_aloud(scores: list[Tensor]) -> list[Tensor]:
    ordered = sorted(scores, key=lambda z: z.item(), reverse=True)
    k = max(j for j in range(1, len(ordered) + 1) if 1 + j * ordered[j - 1] > sum(ordered[:j]))
    tau = (sum(ordered[:k]) - 1) / k
    return [(z - tau).clamp(min=0) for z in scores]


def softmax_aloud(scores: list[Tensor]) -> list[Tensor]:
    return [z.exp() / sum(other.exp() for other in scores) for z in scores]


def aloud(readout: CodeBookReadout, book: CodeBook, tokens: Tensor, mask: Tensor) -> Tensor:
    """Chen et al. 2023, Eq. 4-10, of one sample."""
    config, layers = readout.config, readout.projection
    scores = []
    for code in book.codes:
        fits = []
        for token, real in zip(tokens, mask, strict=True):
            q = token
            for layer in layers:
                q = layer(q)
            fit = config.scale / math.sqrt(len(code)) * sum(a * b for a, b in zip(q, code, strict=True))
            if real:
                fits.append(fit)
        best = fits[0]
        for fit in fits[1:]:
            best = torch.maximum(best, fit)
        if config.padding == "zero" and readout.tower == "text":
            best = best.clamp(min=0)
        scores.append(best if config.pooling == "max" else sum(fits) / len(fits))
    shares = (sparsemax_aloud if config.activation == "sparsemax" else softmax_aloud)(scores)
    return sum(share * code for share, code in zip(shares, book.codes, strict=True))


CASES = [
    {},
    {"scale": 1.0},
    {"activation": "softmax", "scale": 1.0},
    {"pooling": "mean", "scale": 1.0},
    {"projection": "one_layer", "scale": 0.1},
    {"padding": "zero", "scale": 3.0},
]


@pytest.mark.parametrize("tower", ["image", "text"])
@pytest.mark.parametrize("settings", CASES, ids=str)
@pytest.mark.parametrize("tile", [16, max_relevance.TILE])
def test_equals_the_paper_read_aloud_with_its_gradients(settings, tower, tile, monkeypatch):
    monkeypatch.setattr(max_relevance, "TILE", tile)
    monkeypatch.setattr(max_relevance, "CODES", 4 if tile == 16 else 2048)
    readout, book = made(tower, **settings)
    given = features()
    vectors = readout.train()(given, book)
    expected = torch.stack([aloud(readout, book, t, m) for t, m in zip(given.tokens, given.mask, strict=True)])
    torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-12)
    parameters = [book.codes, *readout.parameters()]
    upstream = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(3)).double()
    for mine, theirs in zip(
        torch.autograd.grad(vectors, parameters, upstream),
        torch.autograd.grad(expected, parameters, upstream),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_gradients_equal_finite_differences(settings):
    readout, book = made(**settings)
    given = features()

    def vectors(tokens: Tensor, codes: Tensor) -> Tensor:
        return readout(Features(given.classes, tokens, given.mask), with_codes(codes))

    tokens, codes = given.tokens.requires_grad_(), book.codes.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(vectors, (tokens, codes))


def with_codes(codes: Tensor) -> CodeBook:
    """A book whose codes a gradient reaches."""
    other = CodeBook(len(codes), codes.shape[1])
    del other.codes
    other.codes = codes
    return other


def test_padding_changes_nothing():
    for settings in ({}, {"padding": "zero"}, {"pooling": "mean"}):
        readout, book = made(**settings)
        short = features()
        wide = Features(
            short.classes, F.pad(short.tokens, (0, 0, 0, 3), value=9.0), F.pad(short.mask, (0, 3), value=False)
        )
        torch.testing.assert_close(readout(wide, book), readout(short, book), rtol=0, atol=1e-14)


def test_padding_of_zero_is_what_the_authors_do():
    """Relevance times 0 where a token is padding, then the largest: https://github.com/yuxiaochen1103/FDT."""
    given = features(n=12, length=3)
    given.mask[:, -1] = False  # theirs has padding in every text that does not fill the context
    readout, book = made(padding="zero")
    out, _ = made(padding="out")
    scores = readout.projection(given.tokens) @ book.codes.T / math.sqrt(D) * given.mask[..., None]
    expected = scores.amax(1)
    assert (expected == 0).any()
    queries = readout.projection(given.tokens) / math.sqrt(D)
    torch.testing.assert_close(readout._relevance(queries, given.mask, book.codes), expected, rtol=0, atol=1e-14)
    assert not torch.equal(out._relevance(queries, given.mask, book.codes), expected)
    images, _ = made("image", padding="zero")
    assert (images._relevance(queries, given.mask, book.codes) < 0).any()


def test_only_codes_with_a_share_get_a_gradient_and_no_tensor_is_tokens_times_codes():
    make = torch.Generator().manual_seed(0)
    queries, codes = (torch.randn(*shape, generator=make) for shape in ((4, 20, 8), (5000, 8)))
    upstream = torch.zeros(4, 5000)
    upstream[1, 77], upstream[2, 78] = 1.0, -2.0
    queries.requires_grad_(), codes.requires_grad_()
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.numel()) or x, lambda x: x):
        pooled = pooled_relevance(queries, torch.ones(4, 20, dtype=torch.bool), codes)
    pooled.backward(upstream)
    assert codes.grad.abs().sum(1).nonzero()[:, 0].tolist() == [77, 78]
    assert queries.grad.abs().sum((1, 2)).nonzero()[:, 0].tolist() == [1, 2]
    assert max(saved) <= 5000 * 8


@pytest.mark.parametrize("space", [Sphere(16), Euclidean(16), ProductSphere(4, 4), ProductSphere(4, 4, "geodesic")])
def test_any_space_and_both_towers_share_the_codes(space):
    model = small_model(space, readout="code_book")
    objective, batch = CLIP(), random_batch(5)
    loss = objective(model(batch), log_scale=model.log_scale, space=space).total
    loss.backward()
    assert loss.isfinite()
    without = {name for name, p in model.named_parameters() if p.grad is None}
    assert without == {"image_encoder.ln_post.weight", "image_encoder.ln_post.bias"}  # for classes alone
    assert [name for name in model.state_dict() if name.endswith("codes")] == ["shared.codes"]


def test_precomputed_tokens_and_vectors_are_read():
    model = Model(
        image=PrecomputedImage.Config(width=6),
        text=PrecomputedText.Config(width=5),
        readout=CodeBookReadout.Config(codes=8),
        space=Sphere(4),
        temperature=LogitScale(),
        preprocess=Preprocess(),
        tokens=NoTokenizer(),
    )
    tokens, mask = torch.randn(3, 7, 6), torch.arange(7) < torch.tensor([[7], [2], [1]])
    points = model.encode_image(tokens, mask=mask)
    torch.testing.assert_close(points[1:2], model.encode_image(tokens[1:2, :2]))
    torch.testing.assert_close(points[2:], model.encode_image(tokens[2:, 0]))
    assert model.encode_text(torch.randn(3, 5)).shape == (3, 4)


def test_what_is_logged():
    _, book = made()
    image, text = torch.zeros(2, C).double(), torch.zeros(2, C).double()
    image[0, 0], image[0, 1], image[1, 2] = 0.25, 0.75, 1
    text[0, 1], text[1, 3] = 1, 1
    assert book.facts() == {}
    book.note("image", image)
    book.note("text", text)
    facts = book.facts()
    assert (facts["codes/active_image"], facts["codes/active_text"]) == (1.5, 1)
    assert facts["codes/overlap"] == pytest.approx(0.375)
    assert facts["codes/dead"] == pytest.approx((C - 4) / C)
    assert facts["codes/perplexity_text"] == pytest.approx(2)
    entropy = -sum(p * math.log(p) for p in (0.125, 0.375, 0.5))
    assert facts["codes/perplexity_image"] == pytest.approx(math.exp(entropy))


def test_use_is_noted_in_training_alone():
    readout, book = made()
    readout.eval()(features(), book)
    with torch.no_grad():
        readout.train()(features(), book)
    assert not book.usage.any()
    readout(features(), book)
    assert book.usage[1].sum() == pytest.approx(1)


def test_what_cannot_be_read_is_refused_in_a_sentence():
    readout, book = made()
    given = features()
    given.mask[1] = False
    with pytest.raises(UserError, match="sample 1 of a batch has no tokens but padding"):
        readout(given, book)
    with pytest.raises(UserError, match="gives class tokens alone"):
        readout(Features(given.classes), book)
    for wrong, sentence in (
        ({"codes": 1}, "codes is 1, but with fewer than 2"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"pooling": "sum"}, "pooling must be one of max, mean"),
        ({"padding": "zero", "pooling": "mean"}, "set pooling to max"),
    ):
        with pytest.raises(UserError, match=sentence):
            CodeBookReadout.Config(**wrong)


@pytest.mark.parametrize("settings", [{}, {"active": 0.5}, {"padding": "zero"}], ids=str)
def test_autocast_multiplies_in_half_precision_and_keeps_relevance_exact(settings):
    """Relevance is float32, and wrong by no more than rounding queries and codes once makes it."""
    readout, book = made(dim=32, scale=1.0, **settings)
    readout, book, seen = readout.float(), book.float(), features(n=6, length=5)
    seen = Features(seen.classes.float(), seen.tokens.float(), seen.mask)
    with torch.autocast("cpu", torch.bfloat16):
        relevance = readout.relevance(seen, book)
        queries = readout.projection(seen.tokens)
    assert (relevance.dtype, queries.dtype) == (torch.float32, torch.bfloat16)
    gain = 1.0 if book.gain is None else book.gain.double()
    scores = queries.double() @ book.codes.bfloat16().double().T * readout.scale * gain
    wanted = scores.masked_fill(~seen.mask[..., None], -math.inf).amax(1)
    wanted = wanted.clamp(min=0) if readout.config.padding == "zero" else wanted
    unit = 2**-8 if not max_relevance.max_relevance_fused.usable(queries) else 1e-6  # tiles round their scores
    assert float((relevance.detach() - wanted.detach()).abs().max()) <= unit * float(wanted.detach().abs().max())
    exact = readout.relevance(seen, book)
    assert not torch.equal(exact, relevance)  # without autocast nothing is rounded
    for made_by in (relevance, exact):
        (made_by.square().sum()).backward()
    assert book.codes.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in readout.projection.parameters())


def test_gradients_under_autocast_are_those_of_float32_products_within_rounding():
    readout, book = made(dim=32, scale=1.0)
    readout, book, seen = readout.float(), book.float(), features(n=6, length=5)
    seen, found = Features(seen.classes.float(), seen.tokens.float(), seen.mask), []
    for half in (False, True):
        with torch.autocast("cpu", torch.bfloat16):
            exact = readout._relevance(*readout.queries(seen, book), book.codes) if not half else None
            (readout.relevance(seen, book) if exact is None else exact).square().sum().backward()
        found.append([p.grad.clone() for p in (book.codes, *readout.projection.parameters())])
        readout.zero_grad()
        book.zero_grad()
    for exact, half in zip(*found, strict=True):
        assert float((half - exact).norm()) <= 0.03 * float(exact.norm())
