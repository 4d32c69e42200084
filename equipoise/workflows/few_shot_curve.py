"""`equipoise probe --shots 1 2 4 8 16`: the linear probe on a few pictures of each class, beside zero-shot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from equipoise.analysis.report import AnalysisReport
from equipoise.evaluation.encoding import encode_image_subset, labels, prompt_points
from equipoise.evaluation.few_shot_curve import ShotAccuracy, draw_curve, few_shot_curve, require_shots
from equipoise.evaluation.linear_probe import probe_chance
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.zeroshot import zero_shot
from equipoise.io.progress import Progress
from equipoise.io.tables import make_table, print_tables
from equipoise.models.modal_model import ModalModel
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.probe import (
    FITS,
    LBFGS,
    ProbeRequest,
    labelled_source,
    probed_features,
    sizes_of,
    what_was_read,
)


def probe_shots(
    request: ProbeRequest, shots: Sequence[int], draws: int, out: Path, command: str = ""
) -> list[ShotAccuracy]:
    """Probe with each number of pictures of a class; print, and write few_shot.json and few_shot.png to `out`."""
    if request.protocol != LBFGS:
        raise UserError("--shots is logistic regression by L-BFGS; leave out --protocol")
    model, classes, parts = probed_features(request)
    if isinstance(model, ModalModel):
        raise UserError("--shots stands beside zero-shot by prompts, which named modalities have none of; leave it out")
    require_shots(parts[0], shots, draws, classes)
    total = len(set(shots)) * draws * FITS
    with Progress(total, "fitting") as progress:
        done = iter(range(1, total + 1))
        curve = few_shot_curve(
            *parts, shots, draws, request.seed, classes, lambda: progress.update(next(done, total))
        )  # fmt: skip
    prompted, chance = zero_shot_accuracy(model, request), probe_chance(len(classes))["lp_acc1"]
    finding = _sentence(curve, prompted)
    rows = [(str(one.shots), percent(one.mean), percent(one.deviation)) for one in curve]
    rows += [("zero-shot", percent(prompted), ""), ("chance", percent(chance), "")]
    print_tables(make_table(("shots", "accuracy", "± between draws"), rows, title="few-shot linear probe"))
    print(sizes_of(parts, what_was_read(request, model)))
    numbers = {
        "model": str(request.model), "data": request.data, "draws": draws, "seed": request.seed, "chance": chance,
        "zero_shot": prompted, "curve": [{**asdict(one), "mean": one.mean} for one in curve],
    }  # fmt: skip
    AnalysisReport("few_shot", finding, numbers, draw_curve(curve, prompted, chance, finding)).write(out, command)
    return curve


def zero_shot_accuracy(model: Model, request: ProbeRequest) -> float:
    """Accuracy on the same test data by the prompts of its classes."""
    test = labelled_source(request.test or request.data, request.overrides, "test")
    numbers, truth = labels(test)
    images = encode_image_subset(model, test, numbers)
    return zero_shot(images, truth, prompt_points(model, test), model.space)["acc1"]


def _sentence(curve: Sequence[ShotAccuracy], prompted: float) -> str:
    best = curve[-1]
    enough = next((one.shots for one in curve if one.mean >= prompted), None)
    worth = f"zero-shot's {percent(prompted)} is reached with {enough}" if enough else (
        f"zero-shot's {percent(prompted)} is not reached"
    )  # fmt: skip
    return f"With {best.shots} pictures of each class a linear probe has {percent(best.mean)}; {worth}."
