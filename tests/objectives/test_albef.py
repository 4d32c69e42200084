"""ALBEF, TCL and their parts against the papers' formulas, read aloud in loops."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from albef_by_hand import cross_entropy, local_information
from every_space import NAMES, space_named
from small_model import objective_named, random_batch, small_model
from torch import Tensor
from torch.nn import functional as F

from equipoise.config import load_run
from equipoise.data.batches import Batches
from equipoise.data.preprocess import Preprocess
from equipoise.data.scenes import Scenes
from equipoise.data.source import HIDDEN, IMAGE_VIEW2, MASKED_TEXT
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.heads import LocalPoints, Sizes
from equipoise.kernels import Scoring
from equipoise.objectives import ALBEF, TCL
from equipoise.objectives.local_contrast import local_contrast
from equipoise.objectives.momentum_contrast import momentum_contrast
from equipoise.spaces import ProductSphere, Space, Sphere
from equipoise.targets.weighted import PAIR_WEIGHT
from equipoise.training.ema import EMA
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Embeddings, StepInfo, UserError

T = 1.1
SETTINGS = Training(ema=0.7, warmup_steps=0, learning_rate=1e-2)


def some(space: Space, *shape: int, seed: int) -> Tensor:
    vectors = torch.randn(*shape, space.dim, generator=torch.Generator().manual_seed(seed)).double()
    return space.project(vectors)


def similarity_in(space: Space):
    return lambda a, b: float(space.similarity(a[None], b[None]))


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize("queued", [0, 6])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("name", NAMES)
def test_points_among_keys_and_a_queue_read_aloud(name, alpha, queued, impl):
    space = space_named(name, 4)
    points, keys, taught = (some(space, 5, seed=seed) for seed in (1, 2, 3))
    queue = some(space, queued, seed=4) if queued else None
    loss = momentum_contrast(points, keys, queue, Scoring(space, T), taught=taught, alpha=alpha, impl=impl)
    every = keys if queue is None else torch.cat([keys, queue])
    expected = cross_entropy(points, every, taught, alpha, math.exp(T), similarity_in(space))
    assert float(loss) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize("alpha", [0.0, 0.4])
def test_gradients_of_points_and_scale_are_those_of_finite_differences(alpha, impl):
    """The scale within the target is not differentiated: differences leave it where it is, too."""
    space = Sphere(3)
    points, keys, taught, queue = (some(space, n, seed=seed) for n, seed in ((4, 1), (4, 2), (4, 3), (5, 4)))

    t = torch.tensor(T).double()
    leaves = points.clone().requires_grad_(), t.clone().requires_grad_()
    momentum_contrast(
        leaves[0], keys, queue, Scoring(space, leaves[1]), taught=taught, alpha=alpha, impl=impl
    ).backward()
    for leaf, place in ((leaves[0], (1, 2)), (leaves[0], (3, 0)), (leaves[1], ())):
        moved = []
        for step in (1e-6, -1e-6):
            values = [points.clone(), t.clone()]
            target = values[0 if leaf is leaves[0] else 1]
            target[place] += step
            moved.append(float(_with_target_scale(values[0], torch.cat([keys, queue]), taught, alpha, values[1], t)))
        assert float(leaf.grad[place]) == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-6, abs=1e-9)


def _with_target_scale(points, keys, taught, alpha, t, target_t) -> Tensor:
    target = alpha * F.softmax(target_t.exp() * taught @ keys.T, 1)
    target = target + (1 - alpha) * torch.eye(len(points), len(keys)).double()
    return -(target * F.log_softmax(t.exp() * points @ keys.T, 1)).sum(1).mean()


@pytest.mark.parametrize("at_once", [10**6, 24, 1])
@pytest.mark.parametrize("name", NAMES)
def test_samples_against_parts_read_aloud(name, at_once):
    space = space_named(name, 4)
    points, parts = some(space, 4, seed=1), some(space, 4, 3, seed=2)
    real = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]]).double()
    for mask in (real, None):
        loss = local_contrast(points, parts, mask, Scoring(space, T), at_once)
        counted = (torch.ones(4, 3) if mask is None else mask).tolist()
        expected = local_information(points, parts, counted, math.exp(T), similarity_in(space))
        assert float(loss) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("at_once", [10**6, 5])
def test_gradients_of_samples_against_parts(at_once):
    parts = some(Sphere(3), 4, 2, seed=2)
    real = torch.tensor([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    leaves = some(Sphere(3), 4, seed=1).requires_grad_(), torch.tensor(T).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, t: local_contrast(x, parts, real, Scoring(Sphere(3), t), at_once), leaves)


def test_one_sample_has_no_others_to_be_told_from():
    points = some(Sphere(3), 1, seed=1).requires_grad_()
    loss = local_contrast(points, some(Sphere(3), 1, 2, seed=2), None, Scoring(Sphere(3), T))
    loss.backward()
    assert loss.item() == pytest.approx(0)
    assert points.grad.isfinite().all()


def everything(space: Space, n: int = 5) -> Embeddings:
    roles = ("image", "text", "momentum_image", "momentum_text")
    made = {role: some(space, n, seed=seed) for seed, role in enumerate(roles)}
    made |= {"image_queue": some(space, 7, seed=10), "text_queue": some(space, 7, seed=11)}
    made |= {"momentum_image_locals": some(space, n, 4, seed=12), "momentum_text_locals": some(space, n, 3, seed=13)}
    made |= {"momentum_text_locals_mask": (torch.arange(3) <= torch.arange(n)[:, None] % 3).double()}
    make = torch.Generator().manual_seed(14)
    made |= {role: torch.rand(n, generator=make).double() for role in ("words_cost", "words_soft_cost")}
    count = torch.ones(n, 3).double()
    count[2, 1:] = 0  # a caption that all others have too
    right = torch.tensor([[1, 1, 1], [0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 1, 1]]).double()
    cost = torch.rand(n, 3, generator=make).double() * count
    return Embeddings.of({**made, "match_cost": cost, "match_count": count, "match_right": right})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", [1, 3, 20])
def test_albef_and_tcl_read_aloud(name, step):
    space = space_named(name, 4)
    made = everything(space)
    batch = replace(random_batch(5), moment=StepInfo(0, step, 20, 4))  # α is full from the fifth step on
    alpha, scale, s = 0.4 * min(1, (step - 1) / 4), math.exp(T), similarity_in(space)
    r = made.roles()
    texts, images = (torch.cat([r[f"momentum_{side}"], r[f"{side}_queue"]]) for side in ("text", "image"))
    crossed = [
        cross_entropy(r["image"], texts, r["momentum_image"], alpha, scale, s),
        cross_entropy(r["text"], images, r["momentum_text"], alpha, scale, s),
    ]
    alone = [
        cross_entropy(r["image"], images, r["image"], 0, scale, s),
        cross_entropy(r["text"], texts, r["text"], 0, scale, s),
    ]
    parts = [
        local_information(r["image"], r["momentum_image_locals"], [[1] * 4] * 5, scale, s),
        local_information(r["text"], r["momentum_text_locals"], r["momentum_text_locals_mask"].tolist(), scale, s),
    ]
    match = float(r["match_cost"].sum()) / 13
    hidden = int(batch.side[HIDDEN].sum())
    words = ((1 - alpha) * float(r["words_cost"].sum()) + alpha * float(r["words_soft_cost"].sum())) / hidden
    expected = {"contrastive": sum(crossed) / 2, "match": match, "words": words}
    for impl in ("eager", "tiled"):
        albef = ALBEF(queue=10, impl=impl)(made, batch, log_scale=T, space=space)
        assert {name: float(term) for name, term in albef.terms.items()} == pytest.approx(expected, abs=1e-11)
        assert float(albef.total) == pytest.approx(sum(expected.values()), abs=1e-11)
        assert albef.facts() == pytest.approx({"alpha": alpha, "match_accuracy": 8 / 13})
        tcl = TCL(queue=10, impl=impl)(made, batch, log_scale=T, space=space)
        assert float(tcl.total) == pytest.approx(sum(crossed + alone + parts) / 6 + match + words, abs=1e-11)
        assert float(tcl.terms["in_modal"]) == pytest.approx(sum(alone) / 2, abs=1e-11)
        assert float(tcl.terms["local"]) == pytest.approx(sum(parts) / 2, abs=1e-11)


def test_weights_count_where_the_pairing_does():
    space, made, plain = Sphere(4), everything(Sphere(4)), random_batch(5)
    weights = [0.9, 0.0, 0.4, 1.0, 0.25]
    given = replace(plain, side={**plain.side, PAIR_WEIGHT: torch.tensor(weights, dtype=torch.float64)})
    equal = replace(plain, side={**plain.side, PAIR_WEIGHT: torch.full((5,), 0.3).double()})
    r, s, alpha = made.roles(), similarity_in(space), 0.0  # in the first step
    keys = {side: torch.cat([r[f"momentum_{side}"], r[f"{side}_queue"]]) for side in ("image", "text")}
    rows = [
        [_row(r[one], keys[other], i, s) for i in range(5)] for one, other in (("image", "text"), ("text", "image"))
    ]
    crossed = sum(sum(w * c for w, c in zip(weights, row, strict=True)) / sum(weights) for row in rows) / 2
    match = sum(weights[i] * 5 / sum(weights) * float(r["match_cost"][i, 0]) for i in range(5))
    match = (match + float(r["match_cost"][:, 1:].sum())) / 13
    hidden = plain.side[HIDDEN].sum(1).tolist()
    words = sum(w * float(c) for w, c in zip(weights, r["words_cost"], strict=True))
    words /= sum(w * h for w, h in zip(weights, hidden, strict=True))
    for impl in ("eager", "tiled"):
        objective = TCL(queue=10, impl=impl)
        assert objective.weighs_pairs
        found, without, alike = (objective(made, b, log_scale=T, space=space) for b in (given, plain, equal))
        assert float(found.terms["contrastive"]) == pytest.approx(crossed, abs=1e-11)
        assert float(found.terms["match"]) == pytest.approx(match, abs=1e-11)
        assert float(found.terms["words"]) == pytest.approx(words, abs=1e-11)
        assert found.terms["local"] == without.terms["local"]
        assert found.terms["in_modal"] == without.terms["in_modal"]
        assert float(alike.total) == pytest.approx(float(without.total), abs=1e-11)
        full = replace(given, moment=StepInfo(0, 9, 20, 4))  # soft targets too
        assert objective(made, full, log_scale=T, space=space).total.isfinite()
    assert alpha == 0.4 * (plain.moment.step - 1) / plain.moment.epoch_steps


def _row(points, keys, i: int, s) -> float:
    exps = [math.exp(math.exp(T) * s(points[i], key)) for key in keys]
    return -math.log(exps[i] / sum(exps))


def test_tcl_without_its_own_terms_is_albef():
    made, batch = everything(Sphere(4)), random_batch(5)
    plain = TCL(queue=10, in_modal_weight=0.0, local_weight=0.0)
    same = ALBEF(queue=10)(made, batch, log_scale=T, space=Sphere(4)).total
    assert float(plain(made, batch, log_scale=T, space=Sphere(4)).total) == pytest.approx(float(same), abs=1e-13)
    assert "local" not in plain.heads
    assert not [role for role in plain.needs if "locals" in role]


def test_a_weight_of_zero_asks_for_nothing():
    bare = ALBEF(match_weight=0.0, words_weight=0.0)
    assert set(bare.heads) == {"queue"}
    assert bare.views == ()
    assert bare.shown == ()
    unmatched = ALBEF(match_weight=0.0)
    assert unmatched.shown == ("momentum_words_shares",)
    assert "match_cost" not in unmatched.needs
    assert ALBEF(words_weight=0.0).views == ()
    assert "momentum_words_shares" not in ALBEF(alpha=0.0).shown


def stepped(name: str) -> tuple[Step, EMA]:
    """A step and an average that differ in their weights, with a queue that holds a batch."""
    objective = objective_named(name)
    model = bert_model(objective.heads).train()
    step, average = Step(model, objective, SETTINGS, torch.device("cpu")), EMA(model, 0.7)
    step(random_batch(6, 1), 1, average)
    average.update(model, 1)
    return step, average


def bert_model(heads):
    """A sphere, read at one class token, with a bidirectional text tower."""
    return small_model(ProductSphere(16, 1), readout="class_tokens", heads=heads)


def teacher_of(step: Step, average: EMA):
    teacher = copy.deepcopy(step.model)
    average.put_into(teacher)
    return teacher.eval()


@pytest.mark.parametrize("name", ["albef", "tcl"])
def test_a_step_equals_the_paper_read_aloud(name):
    step, average = stepped(name)
    model, objective, batch = step.model, step.objective, random_batch(6, 3)
    student, teacher = copy.deepcopy(model), teacher_of(step, average)
    torch.manual_seed(5)
    step.optimizer.zero_grad()
    loss = step._backward(batch, average)
    view = batch.side[IMAGE_VIEW2] if name == "tcl" else batch.images
    expected = _aloud(student, teacher, batch, view, objective)
    for term, value in expected.items():
        assert float(loss.terms[term]) == pytest.approx(float(value), abs=1e-10), term
    shares = {"contrastive": 1.0} if name == "albef" else dict.fromkeys(("contrastive", "in_modal", "local"), 1 / 3)
    sum(shares.get(term, 1.0) * value for term, value in expected.items()).backward()
    for (named, mine), theirs in zip(model.named_parameters(), student.parameters(), strict=True):
        assert mine.grad is not None, named
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=0, atol=1e-10, msg=lambda text, n=named: f"{n}: {text}")


def _aloud(student, teacher, batch, view, objective) -> dict[str, Tensor]:
    """Every term from the towers up, one pair after the other; negatives are drawn by the same numbers."""
    n, head, scale = len(batch), student.heads["fusion"], student.logit_scale.exp()
    alpha = 0.4 * min(1.0, (batch.moment.step - 1) / batch.moment.epoch_steps)
    image, text = student.image_points(batch.images), student.text_points(batch)
    with torch.no_grad():
        seen, told = teacher.image_points(view), teacher.text_points(batch)
        queue = student.heads["queue"].image_queue[:6], student.heads["queue"].text_queue[:6]
    texts, images = torch.cat([told, queue[1]]), torch.cat([seen, queue[0]])

    def soft(rows, keys, shown) -> Tensor:
        q = alpha * F.softmax(scale.detach() * shown @ keys.T, 1) + (1 - alpha) * torch.eye(n, len(keys)).double()
        return -(q * F.log_softmax(scale * rows @ keys.T, 1)).sum() / n

    found = {"contrastive": (soft(image, texts, seen) + soft(text, images, told)) / 2}
    if isinstance(objective, TCL):
        alone = [F.cross_entropy(scale * x @ k.T, torch.arange(n)) for x, k in ((image, images), (text, texts))]
        found["in_modal"] = sum(alone) / 2
        found["local"] = _locals_aloud(teacher, batch, view, image, text, scale)

    def fused(i: int, j: int, ids: Tensor) -> Tensor:
        """Text i, alone, with image j: class token and words."""
        width = int(batch.mask[i].sum())
        words = student.text_encoder(ids[i : i + 1, :width], batch.mask[i : i + 1, :width])
        patches = student.image_encoder(batch.images[j : j + 1])
        normed = student.image_encoder.ln_post(patches.tokens)
        tokens = torch.cat([words.classes, words.tokens], 1), torch.cat([patches.classes, normed], 1)
        real = [torch.ones(x.shape[:2], dtype=torch.bool) for x in tokens]
        return head.fusion(tokens[0], real[0], tokens[1], real[1])[0]

    torch.manual_seed(5)
    drawn = []
    for rows, keys in ((image, told), (text, seen)):
        chances = F.softmax((scale * rows @ keys.T).masked_fill(torch.eye(n, dtype=torch.bool), -torch.inf), 1)
        drawn.append(torch.multinomial(chances.detach(), 1)[:, 0])
    costs = []
    for i in range(n):
        pairs = ((i, i, 1), (i, int(drawn[1][i]), 0), (int(drawn[0][i]), i, 0))
        costs += [-F.log_softmax(head.match(fused(a, b, batch.tokens)[0]), 0)[truth] for a, b, truth in pairs]
    found["match"] = torch.stack(costs).mean()
    words = []
    for i in range(n):
        mine = fused(i, i, batch.side[MASKED_TEXT])
        with torch.no_grad():
            theirs = _teacher_fused(teacher, batch, view, i)
        for j in batch.side[HIDDEN][i].nonzero()[:, 0].tolist():
            logs = F.log_softmax(head.words(mine[j]), 0)
            shares = F.softmax(teacher.heads["fusion"].words(theirs[j]), 0).detach()
            words.append((1 - alpha) * -logs[batch.tokens[i, j]] + alpha * -(shares * logs).sum())
    found["words"] = torch.stack(words).mean()
    return found


def _teacher_fused(teacher, batch, view, i: int) -> Tensor:
    words = teacher.text_encoder(batch.side[MASKED_TEXT][i : i + 1], batch.mask[i : i + 1])
    patches = teacher.image_encoder(view[i : i + 1])
    tokens = torch.cat([words.classes, words.tokens], 1)
    shown = torch.cat([patches.classes, teacher.image_encoder.ln_post(patches.tokens)], 1)
    return teacher.heads["fusion"].fusion(
        tokens, batch.mask[i : i + 1], shown, torch.ones(shown.shape[:2], dtype=torch.bool)
    )[0]


@torch.no_grad()
def _parts(teacher, batch, view) -> tuple[Tensor, Tensor]:
    patches = teacher.image_encoder.ln_post(teacher.image_encoder(view).tokens)  # 2 × 2, so that nothing is pooled
    words = teacher.text_encoder(batch.tokens, batch.mask).tokens
    return (
        F.normalize(patches @ teacher.image_readout.projection, dim=-1),
        F.normalize(words @ teacher.text_readout.projection, dim=-1),
    )


def _locals_aloud(teacher, batch, view, image, text, scale) -> Tensor:
    parts = _parts(teacher, batch, view)
    both = []
    for points, each, real in ((image, parts[0], torch.ones(6, 4)), (text, parts[1], batch.mask[:, 1:])):
        costs = []
        for i in range(6):
            others = [(scale * points[i] @ each[j, q]) for j in range(6) for q in range(each.shape[1])
                      if j != i and real[j, q]]  # fmt: skip
            own = [scale * points[i] @ each[i, p] for p in range(each.shape[1]) if real[i, p]]
            costs.append(torch.stack([torch.logsumexp(torch.stack([o, *others]), 0) - o for o in own]).mean())
        both.append(torch.stack(costs).mean())
    return sum(both) / 2


@pytest.mark.parametrize(("readout", "space"), [("class_tokens", ProductSphere(4, 4)), ("code_book", None)])
def test_several_class_tokens_and_code_books_train(readout, space):
    objective = objective_named("tcl")
    model = small_model(space, readout=readout, heads=objective.heads).train()
    step, average = Step(model, objective, SETTINGS, torch.device("cpu")), EMA(model, 0.7)
    for number in (1, 2):
        result = step(random_batch(5, number), number, average)
    assert set(result.loss.terms) == {"contrastive", "in_modal", "local", "match", "words"}
    assert result.loss.total.isfinite()


def test_hidden_words_come_beside_the_caption():
    source = Scenes.Config(train_size=8, captions=1).build("train")
    captions = [source.pair(index).captions[0] for index in range(8)]
    tokens = CaptionTokenizer.from_config(CaptionTokenizer.Config(vocabulary=800, mask=True), captions)
    made = {
        views: Batches(source, tokens, Preprocess(size=16), batch_size=8, seed=0, views=views).batch(0)
        for views in ((), ("masked_text",), ("masked_words",))
    }
    plain, beside, instead = made.values()
    assert torch.equal(plain.tokens, beside.tokens)
    assert torch.equal(beside.side[MASKED_TEXT], instead.tokens)
    assert torch.equal(beside.side[HIDDEN], instead.side[HIDDEN])
    changed = beside.side[MASKED_TEXT] != beside.tokens
    assert changed.any()
    assert not (changed & ~beside.side[HIDDEN]).any()
    assert load_run("albef-scenes").run.caption_tokens().mask


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ALBEF(match_weight=-1.0), "match_weight must be at least 0"),
        (lambda: ALBEF(contrast_weight=0.0), "contrast_weight must be above 0"),
        (lambda: ALBEF(alpha=1.5), "alpha must be from 0 to 1"),
        (lambda: TCL(local_weight=-1.0), "local_weight must be at least 0"),
        (lambda: ALBEF(queue=10).check_batches(4, 0), "objective.queue is 10, which batches of 4"),
        (lambda: ALBEF(queue=8).check_batches(4, 2), "training.micro_batch cannot be used"),
        (lambda: load_run("albef-scenes", ["training.batch_size=100"]), "set it to a multiple of training.batch_size"),
        (lambda: load_run("tcl-scenes", ["training.micro_batch=64"]), "training.micro_batch cannot be used"),
        (lambda: load_run("albef-scenes", ["training.ema=0"]), "training.ema is 0"),
        (lambda: load_run("albef-scenes", ["training.exchange=ring"]), "cannot be divided among processes"),
        (lambda: load_run("albef-scenes", ["objective.fusion.heads=0"]), "heads"),
        (lambda: small_model(heads=ALBEF(queue=8).heads), "cannot be split into 12 heads"),
    ],
)
def test_senseless_settings_are_refused(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()


def test_a_tower_without_patches_is_refused_in_a_sentence():
    head = LocalPoints.Config(2).build(Sizes(Sphere(16), 16, 16, 40))
    for patches in (1, 9, 8):
        with pytest.raises(UserError, match=f"gives {patches} patches, which cannot be pooled to 2 x 2"):
            head.pooled(torch.zeros(3, patches, 16))
    bare = small_model(heads=objective_named("tcl").heads)
    bare.image_encoder.forward = _without_patches(bare.image_encoder.forward)
    with pytest.raises(UserError, match="reads patches or words, but this encoder gives class tokens alone"):
        bare(random_batch(3), ("image", "text", "match_cost"))


def _without_patches(forward):
    return lambda images, classes_only=False: forward(images, True)


def test_contrasts_alone_take_micro_batches():
    """With neither drawn pairs nor hidden words the cached gradients are those of the whole batch."""
    found = []
    for micro in (0, 2):
        objective = objective_named("tcl_contrasts")
        model = small_model(heads=objective.heads).train()
        settings = replace(SETTINGS, micro_batch=micro)
        step, average = Step(model, objective, settings, torch.device("cpu")), EMA(model, 0.7)
        for number in (1, 2):
            step(random_batch(6, number), number, average)
            average.update(model, number)
        found.append([parameter.detach().clone() for parameter in model.parameters()])
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(whole, parts, rtol=0, atol=1e-12)
