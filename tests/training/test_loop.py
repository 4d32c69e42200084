"""The loop with real parts: a tiny model, scenes, CLIP's loss, checkpoints on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest
import torch
from torch import Tensor

from equipoise.config import Loaded, dump
from equipoise.data.bad_records import EpochCount
from equipoise.data.batches import Batches
from equipoise.data.source import Source
from equipoise.kernels import Scoring
from equipoise.models.folder import step_folders
from equipoise.models.model import Model
from equipoise.objectives import CLIP, Objective
from equipoise.training.ema import EMA
from equipoise.training.logging.metrics import read_metrics
from equipoise.training.loop import Evaluate, TrainResult, train
from equipoise.training.settings import Training
from equipoise.types import Batch, Embeddings, Loss, UserError
from equipoise.workflows import load

Fit = Callable[..., TrainResult]


@pytest.fixture
def fit(model: Model, batches: Batches, tiny: Loaded, tmp_path: Path) -> Fit:
    """`fit(steps=3, ...)` trains the tiny model with these settings; objective, batches and evaluate may be given."""

    def train_it(
        objective: Objective | None = None,
        data: Iterator[Batch] | None = None,
        evaluate: Evaluate | None = None,
        folder: Path = tmp_path,
        **settings: object,
    ) -> TrainResult:
        training = replace(Training(steps=4, batch_size=16, log_every=1, checkpoint_every=2), **settings)  # type: ignore[arg-type]
        return train(
            model,
            objective or CLIP(),
            Fed(batches.source, data) if data else batches,  # type: ignore[arg-type]
            training,
            folder=folder,
            config=dump(tiny.table),
            evaluate=evaluate,
        )

    return train_it


@dataclass(frozen=True)
class Breaking(Objective):
    """CLIP's loss with a second term that breaks at one call: its value, or only its gradient."""

    needs = ("image", "text")
    at: int = 3
    how: str = "nan"
    calls: Iterator[int] = field(default_factory=lambda: count(1))

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        contrastive = CLIP().loss(embeddings, batch, scoring.without_bias()).total
        scale = torch.as_tensor(scoring.log_scale)
        if next(self.calls) != self.at:
            extra = scale * 0
        elif self.how == "gradient":
            extra = (scale - scale.detach()).clamp(min=0).sqrt()  # 0, with an infinite slope
        else:
            extra = scale * float(self.how)
        return Loss(contrastive + extra, {"contrastive": contrastive, "extra": extra})


def weights(model: Model) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def losses(outcome: TrainResult) -> list[float]:
    return [record["loss"] for record in outcome.records if "loss" in record]


@dataclass(frozen=True)
class Fed:
    """Batches of a test's own making in place of those of a source."""

    source: Source
    stream: Iterator[Batch]
    seed: int = 0
    bad: EpochCount = field(default_factory=lambda: EpochCount(0.0, 64, 4))
    waited: float = 0.0
    workers: int = 0

    def starting_at(self, position: int) -> Iterator[Batch]:
        assert position == 0
        return self.stream


def test_it_learns(fit: Fit, batches: Batches) -> None:
    outcome = fit(steps=60, data=(batches.batch(0) for _ in count()), learning_rate=1e-2, warmup_steps=5)
    assert losses(outcome)[0] == pytest.approx(torch.tensor(16.0).log().item(), abs=0.6)
    assert losses(outcome)[-1] < 0.7


def test_what_was_measured_is_on_disk(fit: Fit, tmp_path: Path) -> None:
    outcome = fit(steps=5, log_every=2, warmup_steps=2, learning_rate=0.5)
    assert (outcome.step, outcome.signal) == (5, 0)
    assert outcome.records == read_metrics(tmp_path / "metrics.jsonl")
    assert [record["step"] for record in outcome.records] == [2, 4, 5]
    assert outcome.records[0]["learning_rate"] == 0.5
    for record in outcome.records:
        assert record.keys() >= {"loss", "logit_scale", "grad_norm", "pairs_per_second", "seconds", "at_bound"}
        assert 0 < record["logit_scale"] <= 100.001


def test_the_last_checkpoint_is_the_model_as_it_is(fit: Fit, model: Model, tmp_path: Path) -> None:
    fit(steps=5, checkpoint_every=2)
    assert same(weights(load(tmp_path)), weights(model))
    assert all(path.name.startswith("step-") for path in (tmp_path / "checkpoints").iterdir())


def test_the_best_checkpoint_is_the_one_with_the_highest_metric(fit: Fit, model: Model, tmp_path: Path) -> None:
    scores = iter([0.1, 0.7, float("nan"), 0.7, 0.3])
    seen = []

    def evaluate(model: Model) -> dict[str, float]:
        seen.append(weights(model))
        return {"mean_recall": 0.0, "shine": next(scores)}

    outcome = fit(steps=5, evaluate_every=1, best="shine", evaluate=evaluate)
    assert same(weights(load(tmp_path / "checkpoints" / "best")), seen[1])
    assert same(weights(load(step_folders(tmp_path)[-1])), seen[4])
    assert outcome.records[-1] == {"step": 5, "validation/mean_recall": 0.0, "validation/shine": 0.3}


def test_an_unknown_best_metric_lists_the_known_ones(fit: Fit) -> None:
    with pytest.raises(UserError, match=r'training.best = "shine" is not among the metrics measured: glory, honour'):
        fit(best="shine", evaluate=lambda model: {"glory": 1.0, "honour": 1.0})


def test_evaluation_and_recomputation_do_not_touch_training(fit: Fit, model: Model, tmp_path: Path) -> None:
    start = weights(model)
    runs = []
    changes: list[dict[str, object]] = [{}, {"evaluate_every": 1, "ema": 0.9}, {"recompute_activations": True}]
    for number, settings in enumerate(changes):
        model.load_state_dict(start)
        outcome = fit(evaluate=lambda model: {"mean_recall": 0.0}, folder=tmp_path / str(number), **settings)
        runs.append(losses(outcome))
    assert runs[0] == runs[1] == runs[2]


def test_the_moving_average_is_evaluated_and_saved(fit: Fit, model: Model, batches: Batches, tmp_path: Path) -> None:
    path: list[dict[str, Tensor]] = []
    fit(steps=3, data=watched(batches, model, path))
    path.append(weights(model))  # the start and the weights after each step, without an average
    model.load_state_dict(path[0])
    average, expected, seen = EMA(model, 0.8), [], []
    for step, after in enumerate(path[1:], start=1):
        model.load_state_dict(after)
        average.update(model, step)
        expected.append({name: tensor.clone() for name, tensor in average.weights.items()})

    model.load_state_dict(path[0])

    def evaluate(model: Model) -> dict[str, float]:
        seen.append(weights(model))
        return {"mean_recall": float(len(seen))}

    fit(steps=3, ema=0.8, evaluate_every=1, evaluate=evaluate, folder=tmp_path / "averaged")
    assert all(same(a, b) for a, b in zip(seen, expected, strict=True))
    for saved in (tmp_path / "averaged" / "checkpoints" / "best", step_folders(tmp_path / "averaged")[-1]):
        assert same(weights(load(saved)), expected[-1])
    assert same(weights(model), expected[-1])
    assert not same(expected[-1], path[-1])


def watched(batches: Batches, model: Model, path: list[dict[str, Tensor]]) -> Iterator[Batch]:
    for position in count():
        path.append(weights(model))
        yield batches.batch(position)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("nan", r"the loss became nan \(terms: extra = nan\) at step 4"),
        ("inf", r"the loss became inf \(terms: extra = inf\) at step 4"),
        ("gradient", r"the gradient became (nan|inf) at step 4"),
    ],
)
def test_a_number_that_is_not_finite_stops_the_run(
    fit: Fit, model: Model, batches: Batches, tmp_path: Path, how: str, sentence: str
) -> None:
    path: list[dict[str, Tensor]] = []
    last = tmp_path / "checkpoints" / "step-00000002"
    with pytest.raises(UserError, match=rf"{sentence}, so training stopped; .* checkpoint is {last}\. Try"):
        fit(Breaking(at=4, how=how), data=watched(batches, model, path), steps=9)
    assert same(weights(load(last)), path[2])
    assert same(weights(model), path[3])  # the bad step touched nothing


def test_a_bad_number_before_any_checkpoint_says_so(fit: Fit) -> None:
    with pytest.raises(UserError, match=r"at step 1, .*no checkpoint"):
        fit(Breaking(at=1))


def test_captions_cut_are_those_trained_on(fit, model, batches):
    """An evaluation cuts captions too, and a run that is stopped may do it twice or leave it out."""

    def evaluate(_: Model) -> dict[str, float]:
        model.tokens.truncated += 100
        return {"mean_recall": 0.5}

    model.tokens.truncated = 7  # by an evaluation before the run
    evaluated = fit(steps=2, evaluate=evaluate, evaluate_every=1, evaluate_start=True)
    assert evaluated.captions_cut == model.tokens.truncated < 100
