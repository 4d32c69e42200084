"""What is measured of a model that a cell has trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from equipoise.config import Run
from equipoise.data.scenes import Scenes
from equipoise.data.source import Source
from equipoise.evaluation.completeness import completeness, judged
from equipoise.evaluation.completeness_scenes import scene_contrasts
from equipoise.evaluation.evaluate import evaluate
from equipoise.evaluation.logit_scale import logit_scale_course
from equipoise.models.model import Model
from equipoise.readouts import CodeBook
from equipoise.training.loop import TrainResult

LOGGED = ("mix/", "batch/", "codes/", "guide/")


def numbers(model: Model, run: Run, split: str) -> dict[str, float]:
    """What all protocols that this data allows find on a split."""
    findings = evaluate(model, run.data.build(split), run.evaluation)
    return {f"{name}/{key}": value for name, finding in findings.items() for key, value in finding.metrics.items()}


def final_scale(outcome: TrainResult) -> dict[str, float]:
    """Where the logit scale ended, and when it had settled; nothing where none was logged."""
    went = logit_scale_course(outcome.records, outcome.epoch)
    return {} if went is None else {"t": math.log(went.final), **went.metrics()}


def measured(model: Model, run: Run, outcome: TrainResult) -> dict[str, float]:
    """All numbers of a cell: `validation/...` to choose by, `test/...` to report, the logit scale and the log."""
    found = {
        f"{split}/{key}": value for split in ("validation", "test") for key, value in numbers(model, run, split).items()
    }
    source = run.data.build("test")
    if isinstance(source, Scenes):
        found |= {f"test/{key}": value for key, value in complete_sentences(model, source).items()}
    if isinstance(model.shared, CodeBook):
        by_weights = replace(run, evaluation=replace(run.evaluation, features="weights"))
        of_weights = numbers(model, by_weights, "test")
        found |= {f"test/weights/{key.removeprefix('retrieval/')}": value for key, value in of_weights.items()}
    found |= final_scale(outcome)
    for name in ("agreement", "pointing"):
        own, random = (found.get(f"test/codes/codes_{name}{end}") for end in ("", "_random"))
        if own is not None and random is not None:
            found[f"{name}_gain"] = own - random
    return found | of_log(outcome.records)


def complete_sentences(model: Model, source: Source) -> dict[str, float]:
    """Shares of sentences about scenes that a model finds closer than the same with something left out or swapped."""
    pairs = [source.pair(index) for index in range(len(source))]
    contrasts = [one for index, pair in enumerate(pairs) for one in scene_contrasts(index, pair)]
    found = completeness(contrasts, judged(model, source, contrasts))
    return {f"completeness/{one.kind}": one.right for one in found if not one.objects}


def of_log(records: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """`log/KEY`, the mean over the run, and `end/KEY`, the last value."""
    names = {key for record in records for key in record if key.startswith(LOGGED)}
    found: dict[str, float] = {}
    for name in sorted(names):
        values = [record[name] for record in records if name in record]
        found |= {f"log/{name}": fmean(values), f"end/{name}": values[-1]}
    return found
