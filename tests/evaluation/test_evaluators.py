"""The contract of `evaluation/evaluator.py`, for every evaluation in the dict: a new one is found here by itself."""

from __future__ import annotations

import json
import math
import re

import pytest
import torch
from conftest import TINY_CODES, TINY_SETTINGS
from docs_lists import stale
from few_shot_settings import SMALL
from plain_sources import Labelled, Plain
from rich.console import Console

from equipoise.citations import references
from equipoise.config import Loaded, load_run
from equipoise.data.source import Source, has_modalities
from equipoise.data.tokenizer import CaptionTokenizer, NoTokenizer
from equipoise.evaluation import EVALUATIONS
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.evaluate import evaluate
from equipoise.evaluation.evaluator import TASKS, EvalResult
from equipoise.evaluation.metrics import KINDS
from equipoise.evaluation.results import metric, table, write_results
from equipoise.evaluation.settings import Evaluation
from equipoise.models.modal_model import ModalModel
from equipoise.models.model import Model
from equipoise.workflows import build_model

SMALL_WORLD = ("data.train_size=64", "data.validation_size=32", "data.test_size=32")
each_evaluation = pytest.mark.parametrize("name", EVALUATIONS)


@pytest.fixture(scope="module")
def sources(tiny: Loaded) -> dict[str, Source]:
    """One source of each kind of truth."""
    scenes = tiny.run.data.build("test")
    classes = load_run("few-shot-scenes", SMALL).run.data
    return {
        "judged and labelled": scenes,
        "labelled": Labelled(scenes),
        "unlabelled": Labelled(scenes, label=False),
        "pairs alone": Plain(scenes),
        "classes alone": classes.build("validation"),
        "classes and shifts": classes.build("test"),
        "modalities": load_run("gmc-world", SMALL_WORLD).run.data.build("test"),
    }


@pytest.fixture(scope="module")
def models(tiny: Loaded, tokens: CaptionTokenizer) -> list[Model]:
    """Untrained ones: a plain one, one with a code book, one that writes captions, one with a fusion encoder, one of
    named modalities."""
    torch.manual_seed(0)
    coded = load_run("fdt-scenes", (*TINY_SETTINGS, *TINY_CODES))
    writing = load_run("coca-scenes", TINY_SETTINGS)
    fused = load_run("albef-scenes", (*TINY_SETTINGS, "objective.fusion.layers=1"))
    modal = build_model(load_run("gmc-world", SMALL_WORLD).run, NoTokenizer())
    return [*(build_model(loaded.run, tokens) for loaded in (tiny, coded, writing, fused)), modal]


@pytest.fixture(scope="module")
def results(sources: dict[str, Source], models: list[Model]) -> dict[str, dict[str, EvalResult]]:
    """By source, by evaluation: of the first model that has what an evaluation measures."""
    return {
        kind: {
            name: found
            for model in reversed(models)
            if isinstance(model, ModalModel) == has_modalities(source)
            for name, found in evaluate(model, source, Evaluation()).items()
        }
        for kind, source in sources.items()
    }


def of(name: str, results: dict[str, dict[str, EvalResult]]) -> list[EvalResult]:
    """All results of one evaluation."""
    return [found[name] for found in results.values() if name in found]


@each_evaluation
def test_it_declares_a_task_metrics_and_references(name):
    evaluation = EVALUATIONS[name]
    assert evaluation.task in TASKS
    assert set(evaluation.cites) <= references().keys()
    assert type(evaluation).__doc__, "one sentence for docs/evaluation.md"
    for one in evaluation.metrics.values():
        assert one.kind in KINDS
        assert one.short
        assert one.meaning.endswith(".")


@each_evaluation
def test_it_runs_where_it_applies_and_nowhere_else(name, sources, results):
    applies = {kind for kind, source in sources.items() if EVALUATIONS[name].applies(source)}
    assert applies == {kind for kind, found in results.items() if name in found}
    assert applies, "no source of this contract has its truth: add one that has"
    assert applies != sources.keys() or not EVALUATIONS[name].metrics, "some source lacks captions, or labels"


@each_evaluation
def test_each_value_is_declared_and_each_declared_metric_occurs(name, results):
    found = {key for result in of(name, results) for key in result.metrics}
    assert all(EVALUATIONS[name].describe(key) for key in found)
    assert EVALUATIONS[name].metrics.keys() <= found
    for key in found:
        assert metric(key) == EVALUATIONS[name].describe(key), "two evaluations give one name two meanings"


@each_evaluation
def test_shares_and_points_have_a_chance_value_and_other_kinds_have_none(name, results):
    for result in of(name, results):
        assert result.chance.keys() == {key for key in result.metrics if metric(key).has_chance}


@each_evaluation
def test_values_are_finite_and_shares_are_shares(name, results):
    for result in of(name, results):
        for key, value in (*result.metrics.items(), *result.chance.items()):
            assert isinstance(value, float)
            assert math.isfinite(value)
            assert 0 <= value <= 1 or not metric(key).is_share


@each_evaluation
def test_it_is_written_as_json_and_printed_as_a_table(name, results, tmp_path):
    for result in of(name, results):
        path = tmp_path / f"{name}.json"
        write_results(
            path, dataset="d", model="m", pretrained="", task=EVALUATIONS[name].task, metrics=result.metrics,
            extras={"chance": result.chance},
        )  # fmt: skip
        written = json.loads(path.read_text())
        assert result.metrics.items() <= written["metrics"].items()
        assert written["equipoise"]["chance"] == result.chance
        console = Console(width=100)
        with console.capture() as capture:
            console.print(table(result.metrics, result.chance, name))
        for key, value in result.metrics.items():
            row = rf"{re.escape(metric(key).label)} .* {re.escape(metric(key).show(value))} "
            assert bool(re.search(row, capture.get())) != metric(key).is_count


@each_evaluation
def test_it_is_the_same_alone_and_leaves_the_model_as_it_was(name, sources, results, models: list[Model]):
    kind = next(kind for kind, found in results.items() if name in found)
    model = next(model for model in models if EVALUATIONS[name].suits(model))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    alone = EVALUATIONS[name](Encoded(model, sources[kind], Evaluation()))
    assert alone.metrics == pytest.approx(results[kind][name].metrics)
    assert alone.chance == results[kind][name].chance
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_the_settings_cite_what_the_evaluations_cite():
    assert set(Evaluation().cites) == {key for evaluation in EVALUATIONS.values() for key in evaluation.cites}


def test_the_docs_list_every_evaluation():
    assert stale() == [], "run `python tests/docs_lists.py`"
