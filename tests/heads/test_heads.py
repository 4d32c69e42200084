"""What heads make: hidden words guessed, and a queue of texts that forgets in order."""

from __future__ import annotations

import math
import warnings
from collections import deque
from dataclasses import dataclass

import pytest
import torch
from small_model import objective_named, random_batch, small_model
from torch import Tensor

from equipoise.data.source import ANSWERS, HIDDEN, IMAGE_VIEW2
from equipoise.encoders.batch_norm import batch_norms
from equipoise.heads import LogitScaleHead, MLMHead, Sizes, TextQueue
from equipoise.heads import mlm as masked_words
from equipoise.objectives import Objective
from equipoise.spaces import Euclidean, Space, Sphere
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import Batch, Embeddings, Loss, UserError

NEEDS = ("image", "text", "words_cost")


def words_model(causal: bool):
    """The code book's small model has a bidirectional text tower."""
    readout = "class_token" if causal else "code_book"
    return small_model(readout=readout, heads={"words": MLMHead.Config()}).eval()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("at_once", [1000, 3])
def test_the_cost_of_hidden_words_read_aloud(causal, at_once, monkeypatch):
    monkeypatch.setattr(masked_words, "CHUNK", at_once)
    model, batch = words_model(causal), random_batch(5)
    cost = model(batch, NEEDS).further["words_cost"]
    features = model.text_encoder(batch.tokens, batch.mask)
    tokens, first = features.tokens, 0 if causal else 1  # a class token is no word
    for i in range(5):
        expected = 0.0
        for j in range(first, batch.tokens.shape[1]):
            if batch.side[HIDDEN][i, j]:
                logits = model.heads["words"].words(tokens[i, j - first]).tolist()
                right = logits[int(batch.side[ANSWERS][i, j])]
                expected += math.log(sum(math.exp(x) for x in logits)) - right
        assert float(cost[i]) == pytest.approx(expected, abs=1e-10)


def test_words_guessed_in_parts_have_the_same_gradients(monkeypatch):
    def gradient() -> Tensor:
        model = words_model(causal=True).train()
        model(random_batch(5), NEEDS).further["words_cost"].sum().backward()
        return model.text_encoder.words.weight.grad

    whole = gradient()
    monkeypatch.setattr(masked_words, "CHUNK", 2)
    torch.testing.assert_close(gradient(), whole, rtol=0, atol=1e-12)


def test_a_batch_without_hidden_words_still_reaches_the_head():
    """Else several processes would wait for a gradient that never comes."""
    model, batch = words_model(causal=True), random_batch(3)
    batch.side[HIDDEN].fill_(False)
    model(batch, NEEDS).further["words_cost"].sum().backward()
    assert float(model.heads["words"].words.weight.grad.abs().sum()) == 0.0


def queue_of(size: int, space: Space) -> TextQueue:
    return TextQueue.Config(size).build(Sizes(space, 1, 1, 1)).double()


@pytest.mark.parametrize("space", [Sphere(4), Euclidean(4)])
@pytest.mark.parametrize("size", [3, 7, 8, 100])
def test_the_queue_is_first_in_first_out(size, space):
    head, expected = queue_of(size, space), deque(maxlen=size)
    make = torch.Generator().manual_seed(0)
    for _ in range(6):
        text, view2 = (space.project(torch.randn(3, 4, generator=make).double()) for _ in range(2))
        found = head.closest(text)
        for i in range(3):
            known = list(expected) or [text[i]]
            closeness = [float(space.similarity(text[i : i + 1], q[None])) for q in known]
            assert torch.equal(found[i], known[closeness.index(max(closeness))])
        head.update_memory(Embeddings(image=text, text=text, text_view2=view2))
        expected.extend([*view2, *text])
    assert int(head.filled) == len(expected)
    assert {tuple(row) for row in head.queue[: int(head.filled)].tolist()} == {tuple(q.tolist()) for q in expected}


def test_the_queue_learns_a_batch_once_also_in_micro_batches():
    queues = []
    for micro in (0, 4):
        objective = objective_named("declip_without_norms")
        model = small_model(heads=objective.heads).train()
        step = Step(model, objective, Training(micro_batch=micro, learning_rate=0.0), torch.device("cpu"))
        for number in (1, 2):
            step(random_batch(12, number), number)
        head = model.heads["nearest"]
        assert (int(head.place), int(head.filled)) == (8, 40)  # 48 texts into 40 places
        queues.append(head.queue.clone())
    torch.testing.assert_close(*queues, rtol=0, atol=1e-12)


def test_memories_are_no_weights():
    model = small_model(heads={"nearest": TextQueue.Config(9)})
    assert set(model.memory()) == {f"heads.nearest.{part}" for part in ("queue", "place", "filled")}
    assert not [name for name in model.state_dict() if name.startswith("heads.nearest")]


def test_batch_norm_of_heads_is_joined_and_counts_a_batch_once():
    """Each micro-batch is normalised by itself, as it is said when the run starts."""
    objective = objective_named("declip")
    model = small_model(heads=objective.heads).train()
    with pytest.warns(UserWarning, match="the model has batch norm"):
        step = Step(model, objective, Training(micro_batch=4), torch.device("cpu"))
    step(random_batch(12), 1)
    for norm in batch_norms(model.heads["simsiam"].projector):
        assert int(norm.num_batches_tracked) == 3 * 2  # micro-batches, views
    with pytest.raises(UserError, match="micro_batch must be at least 2"):
        Step(model, objective, Training(micro_batch=1), torch.device("cpu"))


def test_the_step_says_when_a_view_is_missing_and_runs_without_the_heads_it_does_not_need():
    objective = objective_named("declip")
    model = small_model(heads=objective.heads)
    batch = random_batch(3)
    bare = Batch(batch.images, batch.tokens, batch.mask, batch.index)
    assert model(bare).further == {}
    with pytest.raises(UserError, match=f"the objective looks at {IMAGE_VIEW2}"):
        model(bare, ("image_view2",))
    with pytest.raises(UserError, match="cannot produce words_cost"):
        small_model()(batch, NEEDS)


def test_views_are_read_once():
    objective = objective_named("declip")
    model, calls = small_model(heads=objective.heads), []
    model.image_encoder.register_forward_hook(lambda *_: calls.append("image"))
    model.text_encoder.register_forward_hook(lambda *_: calls.append("text"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(random_batch(3), objective.needs)
    assert sorted(calls) == ["image", "image", "text", "text"]


def test_a_temperature_of_its_own_learns_and_stays_within_its_bound():
    heads = {"m2_scale": LogitScaleHead.Config(scale=99.0)}
    model, batch = small_model(heads=heads).train(), random_batch(6)
    own = model.heads["m2_scale"].log_scale
    rows = model(batch, ("image", "text", "m2_log_scale")).further["m2_log_scale"]
    assert rows.shape == (6, 1)
    assert rows.detach().exp().tolist() == [[pytest.approx(99.0)]] * 6
    step = Step(model, PushedUp(), Training(learning_rate=0.1, warmup_steps=0), torch.device("cpu"))
    step(batch, 1)
    assert float(own.exp()) == pytest.approx(100.0)  # pushed beyond, and brought back
    with torch.no_grad():
        own.add_(1.0)
    rows = model(batch, ("image", "text", "m2_log_scale")).further["m2_log_scale"]
    assert float(rows[0].exp()) == pytest.approx(100.0)  # bounded in the loss as well,
    assert float(torch.autograd.grad(rows.sum(), own)[0]) == 6  # where the gradient passes
    decay = {id(p): group["weight_decay"] for group in step.optimizer.param_groups for p in group["params"]}
    assert decay[id(own)] == 0
    with pytest.raises(UserError, match="scale must be above 0 and at most 100, not 0"):
        LogitScaleHead.Config(scale=0)


@dataclass(frozen=True)
class PushedUp(Objective):
    """A loss that falls as the own temperature rises."""

    @property
    def needs(self) -> tuple[str, ...]:
        return ("image", "text", "m2_log_scale")

    def loss(self, embeddings, batch, scoring) -> Loss:
        used = embeddings.image.sum() + embeddings.text.sum()
        total = -embeddings.further["m2_log_scale"].mean() + 0 * used
        return Loss(total, {"up": total})
