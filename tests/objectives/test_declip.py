"""SLIP, DeCLIP and their parts against their formulas, read aloud in loops."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from small_model import objective_named, random_batch, small_model
from torch import Tensor

from equipoise.data.batches import Batches
from equipoise.data.preprocess import Preprocess
from equipoise.data.sample_views import other_caption
from equipoise.data.scenes import Scenes
from equipoise.data.source import HIDDEN, Pair
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.forms import CrossEntropy, Sigmoid
from equipoise.kernels import contrast
from equipoise.objectives import SLIP, DeCLIP
from equipoise.objectives.self_supervised import simclr, simsiam
from equipoise.spaces import Sphere
from equipoise.targets import OneHot
from equipoise.types import Batch, Embeddings, StepInfo, UserError

SPACE, T = Sphere(5), 1.2
PAIRS = [(image, text) for image in ("image", "image_view2") for text in ("text", "text_view2")]


def some(n: int, d: int, seed: int) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).double()


def cos(a: Tensor, b: Tensor) -> float:
    return float((a @ b / (a.norm() * b.norm())).detach())


def cross_entropy(images: Tensor, texts: Tensor) -> float:
    """-log softmax of each image's own text, on average."""
    total = 0.0
    for i in range(len(images)):
        exps = [math.exp(math.exp(T) * float(images[i] @ text)) for text in texts]
        total -= math.log(exps[i] / sum(exps)) / len(images)
    return total


def everything(n: int = 6) -> tuple[Embeddings, Batch]:
    points = {role: SPACE.project(some(n, 5, seed)) for seed, role in enumerate(("image", "text"), 1)}
    points |= {role: SPACE.project(some(n, 5, seed)) for seed, role in enumerate(("image_view2", "text_view2"), 3)}
    points |= {
        role: SPACE.project(some(n, 5, seed)) for seed, role in enumerate(("text_nearest", "text_view2_nearest"), 5)
    }
    heads = ("image_projected", "image_projected2", "image_predicted", "image_predicted2")
    points |= {role: some(n, 4, seed) for seed, role in enumerate(heads, 7)}
    return Embeddings.of({**points, "words_cost": some(n, 1, 12)[:, 0].exp()}), random_batch(n)


@pytest.mark.parametrize("at_once", [100, 5, 1])
def test_simclr_equals_the_paper_read_aloud(at_once):
    first, second = some(4, 3, 1), some(4, 3, 2)
    views, expected = torch.cat([first, second]), 0.0
    for a in range(8):
        among = {c: math.exp(cos(views[a], views[c]) / 0.1) for c in range(8) if c != a}
        expected -= math.log(among[(a + 4) % 8] / sum(among.values())) / 8
    assert float(simclr(first, second, 0.1, at_once)) == pytest.approx(expected, abs=1e-12)
    leaves = first.requires_grad_(), second.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: simclr(a, b, 0.5, at_once), leaves)


def test_simclr_of_one_image_has_nothing_to_tell_apart():
    assert float(simclr(some(1, 3, 1), some(1, 3, 2), 0.1)) == 0.0


def test_simsiam_equals_the_paper_read_aloud():
    z, z2, p, p2 = (some(5, 4, seed).requires_grad_() for seed in range(4))
    loss = simsiam((z, z2), (p, p2))
    expected = -sum(cos(p[i], z2[i]) + cos(p2[i], z[i]) for i in range(5)) / 10
    assert float(loss) == pytest.approx(expected, abs=1e-12)
    loss.backward()
    assert z.grad is None
    assert z2.grad is None
    fixed = z.detach(), z2.detach()
    assert torch.autograd.gradcheck(lambda a, b: simsiam(fixed, (a, b)), (p, p2))
    assert float(simsiam((z, z), (z, z))) == pytest.approx(-1)


def test_declip_equals_the_paper_read_aloud():
    embeddings, batch = everything()
    roles, hidden = embeddings.roles(), int(batch.side[HIDDEN].sum())
    clip = sum(cross_entropy(roles[i], roles[t]) + cross_entropy(roles[t], roles[i]) for i, t in PAIRS) / 8
    nearest = sum(cross_entropy(roles[i], roles[f"{t}_nearest"]) for i, t in PAIRS) / 4
    words = sum(float(cost) for cost in roles["words_cost"]) / hidden
    alike = [cos(roles[p][i], roles[z][i]) for p, z in (("image_predicted", "image_projected2"),
             ("image_predicted2", "image_projected")) for i in range(6)]  # fmt: skip
    twins = -sum(alike) / 12
    for impl in ("eager", "tiled"):
        loss = DeCLIP(impl=impl)(embeddings, batch, log_scale=T, space=SPACE)
        expected = {"contrastive": clip, "simsiam": twins, "words": words, "nearest": nearest}
        assert {name: float(term) for name, term in loss.terms.items()} == pytest.approx(expected, abs=1e-12)
        assert float(loss.total) == pytest.approx(0.4 * clip + 0.2 * (twins + words + nearest), abs=1e-12)


@pytest.mark.parametrize("views", ["eda", "caption", "none"])
def test_as_many_pairs_as_there_are_texts(views):
    """Without a second text two pairs are left, and the queue knows one."""
    embeddings, batch = everything()
    roles = embeddings.roles()
    if views == "none":
        roles = {role: points for role, points in roles.items() if not role.startswith("text_view2")}
    objective = DeCLIP(text_views=views)
    loss = objective(Embeddings.of(roles), batch, log_scale=T, space=SPACE)
    pairs = PAIRS if views != "none" else [pair for pair in PAIRS if pair[1] == "text"]
    clip = [(cross_entropy(roles[i], roles[t]) + cross_entropy(roles[t], roles[i])) / 2 for i, t in pairs]
    nearest = [cross_entropy(roles[i], roles[f"{t}_nearest"]) for i, t in pairs]
    assert float(loss.terms["contrastive"]) == pytest.approx(sum(clip) / len(clip), abs=1e-12)
    assert float(loss.terms["nearest"]) == pytest.approx(sum(nearest) / len(nearest), abs=1e-12)
    assert ("text_view2" in objective.needs, "text_view2_nearest" in objective.needs) == (views != "none",) * 2
    wanted = {"eda": ("text_view2",), "caption": ("other_caption",), "none": ()}[views]
    assert objective.views == ("image_view2", *wanted, "masked_words")
    assert objective.weighs_pairs == (views != "caption")


def test_a_model_without_a_second_text_trains():
    chosen = DeCLIP(text_views="none", queue=9, width=8, bottleneck=4)
    model = small_model(heads=chosen.heads).train()
    batch = random_batch(5)
    for _ in range(3):
        embeddings = model(batch, chosen.needs)
        chosen(embeddings, batch, log_scale=model.log_scale, space=model.space).total.backward()
        model.update_memory(embeddings)
    queue = next(head for head in model.all_heads() if hasattr(head, "queue"))
    assert int(queue.filled) == 9


def test_the_weight_of_hidden_words_rises():
    embeddings, batch = everything()
    objective, plain = DeCLIP(words_ramp=0.5), DeCLIP()
    for step, share in ((1, 0.0), (26, 0.5), (51, 1.0), (101, 1.0)):
        now = replace(batch, moment=StepInfo(0, step, 101))
        loss, full = (one(embeddings, now, log_scale=T, space=SPACE) for one in (objective, plain))
        gone = 0.2 * (1 - share) * float(full.terms["words"])
        assert float(loss.total) == pytest.approx(float(full.total) - gone, abs=1e-12)
        assert loss.facts()["weight/words"] == pytest.approx(0.2 * share)


def test_another_caption_is_one_of_the_same_record():
    pair = Pair("k", ("one", "two", "three", "one"))
    drawn = {other_caption("one", pair, seed) for seed in range(50)}
    assert drawn == {"one", "two", "three"}  # the same words may stand there twice
    assert {other_caption("two", pair, seed) for seed in range(50)} == {"one", "three"}
    assert other_caption("one", Pair("k", ("one",)), 3) == "one"
    assert other_caption("two", pair, 7) == other_caption("two", pair, 7)


@pytest.mark.parametrize("view", ["other_caption", "text_view2"])
def test_batches_hold_the_second_caption(view):
    source = Scenes.Config(train_size=8, captions=2).build("train")
    captions = [caption for index in range(8) for caption in source.pair(index).captions]
    tokens = CaptionTokenizer.from_config(CaptionTokenizer.Config(vocabulary=800), captions)
    batches = Batches(source, tokens, Preprocess(size=16), batch_size=8, seed=0, views=(view,))
    batch = batches.batch(0)
    both = {index: set(source.pair(index).captions) for index in batch.index.tolist()}
    assert "text_view2" in batch.side
    for row, index in enumerate(batch.index.tolist()):
        read = [tokens([caption], ["k"]) for caption in both[index]]
        ids = {tuple(words[mask].tolist()) for words, mask in read}
        first = tuple(batch.tokens[row][batch.mask[row]].tolist())
        second = tuple(batch.side["text_view2"][row][batch.side["text_view2_mask"][row]].tolist())
        assert first in ids
        if view == "other_caption":
            assert {first, second} == ids


def test_slip_is_clip_and_simclr():
    embeddings, batch = everything()
    loss = SLIP(self_weight=0.7)(embeddings, batch, log_scale=T, space=SPACE)
    image, text = embeddings.image, embeddings.text
    clip = (cross_entropy(image, text) + cross_entropy(text, image)) / 2
    views = simclr(embeddings.further["image_projected"], embeddings.further["image_projected2"], 0.1)
    assert float(loss.total) == pytest.approx(clip + 0.7 * float(views), abs=1e-12)


def test_a_weight_of_zero_asks_for_nothing():
    plain = DeCLIP(simsiam_weight=0.0, words_weight=0.0, nearest_weight=0.0)
    assert plain.needs == ("image", "text", "image_view2", "text_view2")
    assert not plain.heads
    assert plain.views == ("image_view2", "text_view2")
    assert set(DeCLIP().heads) == {"simsiam", "words", "nearest"}
    assert "masked_words" in DeCLIP().views
    assert "text_nearest" not in DeCLIP().trains


def test_no_hidden_word_in_a_batch_costs_nothing():
    embeddings, batch = everything()
    nothing = Batch(batch.images, batch.tokens, batch.mask, batch.index, {HIDDEN: torch.zeros(6, 8, dtype=torch.bool)})
    silent = Embeddings.of({**embeddings.roles(), "words_cost": torch.zeros(6).double()})
    loss = DeCLIP()(silent, nothing, log_scale=T, space=SPACE)
    assert float(loss.terms["words"]) == 0.0
    assert loss.total.isfinite()


def test_one_direction_of_the_cross_entropy():
    u, v = (SPACE.project(some(7, 5, seed)).requires_grad_() for seed in (1, 2))
    for direction, expected in (("rows", cross_entropy(u, v)), ("cols", cross_entropy(v, u))):
        form = CrossEntropy(direction)
        grads = []
        for impl in ("eager", "tiled"):
            loss = contrast(u, v, space=SPACE, target=OneHot(), form=form, log_scale=T, impl=impl, tile=3)
            assert float(loss) == pytest.approx(expected, abs=1e-12)
            grads.append(torch.autograd.grad(loss, (u, v)))
        for eager, tiled in zip(*grads, strict=True):
            torch.testing.assert_close(tiled, eager, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DeCLIP(words_weight=-1.0), "words_weight must be at least 0"),
        (lambda: DeCLIP(words_ramp=2.0), "words_ramp must be a share of the run"),
        (lambda: DeCLIP(text_views="two"), "text_views must be one of eda, caption, none"),
        (lambda: DeCLIP(queue=0), "queue, width and bottleneck must be at least 1"),
        (lambda: DeCLIP(form=Sigmoid(learned=True)), "set form.learned to false"),
        (lambda: SLIP(self_temperature=0.0), "self_temperature"),
        (lambda: CrossEntropy("up"), "direction must be one of both, rows, cols"),
    ],
)
def test_senseless_settings_are_refused(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()


@pytest.mark.parametrize("objective", ["slip", "declip"])
@pytest.mark.parametrize("readout", ["class_token", "code_book"])
def test_gradients_reach_every_part_and_are_those_of_finite_differences(objective, readout):
    chosen = objective_named(objective)
    model = small_model(readout=readout, heads=chosen.heads).train()
    batch = random_batch(5)

    still = [role for role in chosen.needs if role not in chosen.trains]  # which the differences must not move either
    fixed = {role: tensor.detach() for role, tensor in model(batch, chosen.needs).roles().items() if role in still}

    def total() -> Tensor:
        embeddings = Embeddings.of({**model(batch, chosen.needs).roles(), **fixed})
        return chosen(embeddings, batch, log_scale=model.log_scale, space=model.space).total

    total().backward()
    unread = ("image_encoder.ln_post", "text_encoder.class") if readout == "code_book" else ()
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            assert name.startswith(unread) and objective == "declip", name  # noqa: PT018
    step = 1e-6
    parameters = dict(model.named_parameters())
    of_heads = [name for name in parameters if name.startswith("heads.") and name.endswith("0.weight")]
    names = ["image_encoder.patches.weight", "text_encoder.words.weight", *of_heads]
    for name in names:
        weight = parameters[name]
        place = int(weight.grad.abs().argmax())
        with torch.no_grad():
            flat = weight.view(-1)
            flat[place] += step
            above = total()
            flat[place] -= 2 * step
            below = total()
            flat[place] += step
        assert float((above - below) / (2 * step)) == pytest.approx(float(weight.grad.view(-1)[place]), rel=2e-4), name
