"""Measuring the models of a fine-tuning run: on validation data, on test data, on the start model's own data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from equipoise.config import Run
from equipoise.data.source import Source
from equipoise.evaluation.evaluate import evaluate, validate
from equipoise.evaluation.evaluator import EvalResult
from equipoise.evaluation.settings import Evaluation
from equipoise.finetuning.comparison import START, Comparison
from equipoise.io.progress import Progress
from equipoise.models.model import Model
from equipoise.training.distributed.agreement import Facts, data_facts, model_facts, require_agreement
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.sharded_encoding import sharded_encoding
from equipoise.training.distributed.wrap import device_of_rank
from equipoise.training.logging.metrics import NullLogger
from equipoise.types import UserError
from equipoise.workflows.start_model import Start

VALIDATION, FORMER = "validation", "test, what the start model was trained on"


class Measurer:
    """Measures models on every data set; each method is called by all ranks together."""

    def __init__(self, run: Run, start: Start, ranks: Ranks):
        self.run, self.ranks = run, ranks
        self.device = device_of_rank(run.training.torch_device(), ranks)
        self.validation, self.test = (run.data.build(split) for split in ("validation", "test"))
        self.former, self.left_out = _former(run, start)
        self.numbers: dict[str, dict[str, dict[str, float]]] = {}
        require_agreement(ranks, lambda: {**self._facts(), **model_facts(start.model)})
        self.prepare(start.model)

    def prepare(self, model: Model) -> Model:
        """Move a model to this rank's device, for evaluation."""
        return model.to(self.device).eval()

    def score(self, model: Model) -> float:
        """The metric that selects weights, on validation data."""
        return self._validated(model)[self.run.training.best]

    def curve(self, shares: Sequence[float], at: Callable[[float], Model]) -> tuple[float, ...]:
        """The score at every interpolation share between start and end."""
        scores = []
        with Progress(len(shares), "between start and end") if self.ranks.is_main else NullLogger() as progress:
            for share in shares:
                scores.append(self.score(at(share)))
                progress.update(len(scores), **{self.run.training.best: f"{scores[-1]:.4g}"})
        return tuple(scores)

    def measure(self, name: str, model: Model) -> Mapping[str, EvalResult]:
        """Measure a model on every data set; returns the results on the test data."""
        findings = self._evaluated(model, self.test, self.run.evaluation)
        self._note(VALIDATION, name, self._validated(model))
        self._note("test", name, _flat(findings))
        if self.former:
            source, settings = self.former
            self._note(FORMER, name, _flat(self._evaluated(model, source, settings)))
        return findings

    def comparison(self, shares: tuple[float, ...], scores: tuple[float, ...]) -> Comparison:
        tuning, best = self.run.finetuning, self.run.training.best
        before = self.numbers[VALIDATION][START][best]
        return Comparison(tuning.start, tuning.method, best, before, shares, scores, self.numbers, self.left_out)

    def _facts(self) -> Facts:
        """Facts about the data on which all ranks must agree."""
        sources = {VALIDATION: self.validation, "test": self.test, **({FORMER: self.former[0]} if self.former else {})}
        return {name: fact for split, source in sources.items() for name, fact in data_facts(split, source).items()}

    def _validated(self, model: Model) -> dict[str, float]:
        with sharded_encoding(model, self.ranks):
            found = validate(model, self.validation, self.run.evaluation)
        return self.ranks.on_main(lambda: found)  # so that rounding on a GPU cannot divide the ranks

    def _evaluated(self, model: Model, source: Source, settings: Evaluation) -> Mapping[str, EvalResult]:
        with sharded_encoding(model, self.ranks):
            return evaluate(model, source, settings)

    def _note(self, data: str, name: str, numbers: dict[str, float]) -> None:
        self.numbers.setdefault(data, {})[name] = numbers


def _former(run: Run, start: Start) -> tuple[tuple[Source, Evaluation] | None, str]:
    """The data that the start model was trained on, to measure forgetting; else the reason why there is none."""
    former = start.trained_on()
    if former is None:
        return None, "the start model was not trained here, so what it may have forgotten was not measured"
    if former.data == run.data:
        return None, "the start model was trained on the same data"
    try:
        return (former.data.build("test"), former.evaluation), ""
    except (UserError, OSError) as error:
        return None, f"what the start model may have forgotten was not measured: {error}"


def _flat(findings: Mapping[str, EvalResult]) -> dict[str, float]:
    """Metrics of all protocols but `matching`, whose metrics have the names of `retrieval`'s."""
    kept = (finding for name, finding in findings.items() if name != "matching")
    return {name: value for finding in kept for name, value in finding.metrics.items()}
