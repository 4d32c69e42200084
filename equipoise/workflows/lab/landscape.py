"""`equipoise lab landscape`: how does the logit scale change the shape of the loss around the trained weights?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.analysis.landscape import cosine, draw_landscape, gradient_norms, loss_surface, random_direction
from equipoise.analysis.report import AnalysisReport
from equipoise.data.batches import Batches
from equipoise.io.progress import Progress
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model
from equipoise.types import Batch, UserError
from equipoise.workflows.subject import Subject

NORM_SCALES = 9  # logit scales at which the gradient is measured


def draw_around(
    subject: Subject, logit_scales: tuple[float, float], batch_size: int, grid: int, reach: float
) -> AnalysisReport:
    """The loss on a grid × grid square of that reach, and the gradient along one side of it."""
    low, high = _checked(logit_scales, grid, reach)
    model = subject.model()
    batch = _batch(model, subject, batch_size)
    directions = tuple(random_direction(model, subject.seed, name) for name in ("δ", "η"))
    places, scales = np.linspace(-reach, reach, grid).tolist(), np.geomspace(low, high, NORM_SCALES).tolist()
    with Progress(grid * grid, "loss") as progress:
        losses = loss_surface(model, batch, (directions[0], directions[1]), places, (low, high), progress.update)
    with Progress(grid, "gradient") as progress:
        norms = gradient_norms(model, batch, directions[0], places, scales, progress.update)
    conclusion = sentence(losses.numpy(), (low, high), norms.numpy(), scales)
    numbers = {
        **subject.facts(), "batch_size": batch_size, "cosine_of_directions": cosine(*directions), "places": places,
        "logit_scales": [low, high], "losses": losses.tolist(),
        "gradient_logit_scales": scales, "gradient_norms": norms.tolist(),
    }  # fmt: skip
    figure = draw_landscape(losses.numpy(), places, (low, high), norms.numpy(), places, scales, conclusion)
    return AnalysisReport("landscape", conclusion, numbers, figure)


def _checked(logit_scales: tuple[float, float], grid: int, reach: float) -> tuple[float, float]:
    low, high = sorted(logit_scales)
    if not 0 < low < high:
        raise UserError(f"--scales are {low:g} and {high:g}; give two different ones above 0")
    if grid < 3 or grid % 2 == 0 or not reach > 0:
        raise UserError(f"a grid of {grid} over ±{reach:g} has no middle; give an odd grid from 3 and a reach above 0")
    return low, high


def _batch(model: Model, subject: Subject, batch_size: int) -> Batch:
    source = subject.source()
    require_compatible(model, source)
    if batch_size < 2:
        raise UserError(f"a batch of {batch_size} has no negatives; give at least 2")
    device = model.device
    return Batches(
        source, model.tokens, model.preprocess, batch_size=batch_size, seed=subject.seed, device=device
    ).batch(0)


def sentence(losses: np.ndarray, at: Sequence[float], norms: np.ndarray, scales: Sequence[float]) -> str:
    spans = " and ".join(
        f"from {surface.min():.3g} to {surface.max():.3g} at a logit scale of {scale:g}"
        for surface, scale in zip(losses, at, strict=True)
    )
    first, last = norms[0, norms.shape[1] // 2], norms[-1, norms.shape[1] // 2]
    times = f"{last / first:.3g} times as long" if first > 0 else "longer than zero"
    return (
        f"Over this square the loss goes {spans}. At the trained weights the gradient is {times} at a logit scale of "
        f"{scales[-1]:g} as at {scales[0]:g}."
    )
