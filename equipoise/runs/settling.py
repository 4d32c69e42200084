"""The end of a run that fine-tunes: which weights are kept, and what became better and worse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from equipoise.config import Run
from equipoise.data.source import Source
from equipoise.data.tokens import Tokens
from equipoise.evaluation.evaluate import Evaluation, Finding, evaluate, validate
from equipoise.files import write_text
from equipoise.models.folder import BEST, CHECKPOINTS, METRICS, WEIGHTS, read_tensors, step_folders
from equipoise.models.model import Model
from equipoise.runs.loading import build_model
from equipoise.runs.starting import Start
from equipoise.training.parallel import own_device
from equipoise.training.ranks import Ranks
from equipoise.training.sharing import Sharing
from equipoise.tuning.comparison import CHOSEN, START, TUNED, Comparison
from equipoise.tuning.interpolation import between
from equipoise.types import UserError

TUNING, VALIDATION = "tuning.json", "validation"
FORMER = "test, what the start model was trained on"


@dataclass(frozen=True)
class Settled:
    model: Model  # with the weights that are kept
    findings: Mapping[str, Finding]  # of it on the test data
    comparison: Comparison


def settle(run: Run, start: Start, tokens: Tokens, folder: Path, ranks: Ranks) -> Settled:
    """Score the places between start and end on validation data; measure start, end and the best. All ranks."""
    judge = Judge(run, start, ranks)
    model = judge.seated(build_model(run, tokens))
    start.begin(model, run)
    first = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    last = run.lora.merged(_tuned(folder))

    def at(share: float) -> Model:
        model.load_state_dict(between(first, last, share))
        return model

    shares = run.finetuning.tried
    judge.measure(START, start.model)
    findings = judge.measure(TUNED, at(1.0))
    scores = tuple(judge.score(at(share)) for share in shares)
    kept = judge.told(shares, scores).chosen
    if run.finetuning.wise or kept < 1:
        findings = judge.measure(CHOSEN, at(kept))
    return Settled(at(kept), findings, judge.told(shares, scores))


def measure_start(run: Run, start: Start, ranks: Ranks) -> Comparison:
    """The start model alone."""
    judge = Judge(run, start, ranks)
    judge.measure(START, start.model)
    return judge.told((0.0,), (judge.score(start.model),))


class Judge:
    """What is measured of each model of a run that fine-tunes, by all ranks together."""

    def __init__(self, run: Run, start: Start, ranks: Ranks):
        self.run, self.ranks = run, ranks
        self.device = own_device(run.training.torch_device(), ranks)
        self.validation, self.test = (run.data.build(split) for split in ("validation", "test"))
        self.former, self.left_out = _former(run, start)
        self.numbers: dict[str, dict[str, dict[str, float]]] = {}
        self.seated(start.model)

    def seated(self, model: Model) -> Model:
        """On this rank's device, and sharing the work of encoding."""
        if self.ranks.world > 1:
            model.spread = Sharing(self.ranks)
        return model.to(self.device).eval()

    def score(self, model: Model) -> float:
        """On validation data, by the metric that chooses."""
        return self._validated(model)[self.run.training.best]

    def measure(self, name: str, model: Model) -> Mapping[str, Finding]:
        """On all data there are; what was found on the test data."""
        findings = evaluate(model, self.test, self.run.evaluation)
        self._note(VALIDATION, name, self._validated(model))
        self._note("test", name, _flat(findings))
        if self.former:
            source, settings = self.former
            self._note(FORMER, name, _flat(evaluate(model, source, settings)))
        return findings

    def told(self, shares: tuple[float, ...], scores: tuple[float, ...]) -> Comparison:
        tuning, best = self.run.finetuning, self.run.training.best
        before = self.numbers[VALIDATION][START][best]
        return Comparison(tuning.start, tuning.method, best, before, shares, scores, self.numbers, self.left_out)

    def _validated(self, model: Model) -> dict[str, float]:
        found = validate(model, self.validation, self.run.evaluation)
        return self.ranks.first(lambda: found)  # so that rounding on a GPU cannot divide the ranks

    def _note(self, data: str, name: str, numbers: dict[str, float]) -> None:
        self.numbers.setdefault(data, {})[name] = numbers


def write_comparison(folder: Path, comparison: Comparison) -> None:
    write_text(folder / TUNING, json.dumps(comparison.to_json(), indent=2) + "\n")


def read_comparison(folder: Path) -> Comparison | None:
    path = folder / TUNING
    return Comparison.from_json(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def _tuned(folder: Path) -> dict[str, Tensor]:
    """The best weights on validation data after the first step; the last ones where none were better than the start."""
    best = folder / CHECKPOINTS / BEST
    trained = best.is_dir() and json.loads((best / METRICS).read_text(encoding="utf-8"))["step"] > 0
    return read_tensors((best if trained else step_folders(folder)[-1]) / WEIGHTS)


def _former(run: Run, start: Start) -> tuple[tuple[Source, Evaluation] | None, str]:
    """What the start model was trained on, to see what was forgotten; else why not."""
    former = start.trained_on()
    if former is None:
        return None, "the start model was not trained here, so what it may have forgotten was not measured"
    if former.data == run.data:
        return None, "the start model was trained on the same data"
    try:
        return (former.data.build("test"), former.evaluation), ""
    except (UserError, OSError) as error:
        return None, f"what the start model may have forgotten was not measured: {error}"


def _flat(findings: Mapping[str, Finding]) -> dict[str, float]:
    """Metrics of all protocols but `matching`, whose names are those of `retrieval`."""
    kept = (finding for name, finding in findings.items() if name != "matching")
    return {name: value for finding in kept for name, value in finding.metrics.items()}
