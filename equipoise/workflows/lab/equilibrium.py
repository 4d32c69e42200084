"""`equipoise lab equilibrium`: at which logit scale does alignment balance uniformity?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from equipoise.analysis.equilibrium import Equilibrium, draw_equilibrium, equilibrium
from equipoise.analysis.report import AnalysisReport
from equipoise.analysis.sampled_pairs import SampledPoints, draw_points
from equipoise.spaces import Space
from equipoise.types import UserError
from equipoise.workflows.subject import Subject

POINTS = 97  # logit scales of the sweep
LOWEST = 0.01  # of the sweep, as the standard deviation of random points' logits
PAIRS = 1024  # drawn at least, so that small batches are averages of many


def find_equilibrium(
    subject: Subject, batch_sizes: Sequence[int], shuffles: Sequence[float], average: str, highest: float
) -> AnalysisReport:
    """Sweep the logit scale; `shuffles` in percent, on the middle one of the batch sizes. The sweep goes from `LOWEST`
    to `highest` in units of the space's spread, so that it covers the same ground in every space."""
    if not LOWEST < highest < 1e9:
        raise UserError(
            f"the sweep ends at {highest:g}, as the standard deviation of random logits, but starts at {LOWEST:g}; "
            "give more, 300 for instance"
        )
    model, source = subject.model(), subject.source()
    sizes = sorted(batch_sizes)
    points = draw_points(model, source, max(sizes[-1], min(PAIRS, len(source))), subject.seed)
    spread = model.space.spread or measured_spread(points, model.space)
    scales = (np.geomspace(LOWEST, highest, POINTS) / spread).tolist()

    def curve(size: int, percent: float) -> Equilibrium:
        return equilibrium(points, model.space, scales, size, percent / 100, average, subject.seed)

    by_size = [curve(size, 0) for size in sizes]
    by_noise = [curve(sizes[len(sizes) // 2], percent) for percent in sorted(shuffles)]
    learned = float(model.log_scale.detach().exp())
    conclusion = sentence(by_size, by_noise, (scales[0], scales[-1]), learned, spread)
    numbers = {
        **subject.facts(), "average": average, "learned": learned, "logit_scales": scales, "spread": spread,
        "by_batch_size": [asdict(one) for one in by_size], "by_shuffled": [asdict(one) for one in by_noise],
    }  # fmt: skip
    figure = draw_equilibrium(by_size, by_noise, scales, learned, conclusion)
    return AnalysisReport("equilibrium", conclusion, numbers, figure)


def measured_spread(points: SampledPoints, space: Space) -> float:
    """Standard deviation of similarities of images to other images' texts, for a space without a spread of its own."""
    return float(space.pairwise(points.images, points.texts.roll(1, 0)).double().std().clamp(min=1e-9))


def sentence(
    by_size: Sequence[Equilibrium],
    by_noise: Sequence[Equilibrium],
    sweep: tuple[float, float],
    learned: float,
    spread: float,
) -> str:
    def where(one: Equilibrium) -> str:
        if one.below:
            return f"below the sweep, before {sweep[0]:.3g},"
        return f"nowhere up to {sweep[1]:,.3g}" if one.balance is None else f"at a logit scale of {one.balance:.3g}"

    first, last, clean, noisy = by_size[0], by_size[-1], by_noise[0], by_noise[-1]
    text = f"Alignment balances uniformity {where(first)} in batches of {first.batch_size:,}"
    if last is not first:
        text += f" and {where(last)} in batches of {last.batch_size:,}"
    if noisy is not clean:
        text += f"; with {noisy.batch_size:,} pairs, {where(clean)} when {100 * clean.shuffled:g}% of the texts are "
        text += f"shuffled and {where(noisy)} when {100 * noisy.shuffled:g}% are"
    text += f". The model's own logit scale is {learned:.3g}, at which logits of random points have a "
    return f"{text}standard deviation of {learned * spread:.3g}."
