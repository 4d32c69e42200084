"""How far to shift: the direction measured on one set of pairs, every amount tried on another that is held out.

Liang et al. 2022, "Mind the Gap", §4.2; Oh et al. 2023, App. A.1 (`models/embedding_shift.py` has the formula).

    paper      λ from -0.1 to 0.1 by 0.01        Oh et al.: "the finer search range gives better results"
    official   λ from -2.5 to 2.5 by 0.125       the released code of Liang et al.

Oh et al. report the best λ of the test set; here held-out data choose it, which is not the data it is reported on. Each
point is encoded once, whatever the number of amounts, and ranked block by block. Of equally good amounts the smallest
is taken, so that nothing is shifted without a reason.

`draw_shift` shows the metric over the amounts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equipoise.data.remap import subset
from equipoise.data.source import Source, is_judged, is_labelled
from equipoise.evaluation.copies import Copies
from equipoise.evaluation.encoding import (
    Captions,
    captions,
    encode_image_subset,
    encode_images,
    has_captions,
    labels,
    prompt_points,
)
from equipoise.evaluation.ranking import retrieval, retrieval_chance
from equipoise.evaluation.retrieval import counted_copies
from equipoise.evaluation.settings import Evaluation
from equipoise.evaluation.zeroshot import zero_shot
from equipoise.io.figures import SERIES, captioned_figure, style
from equipoise.models.compatibility import require_compatible
from equipoise.models.embedding_shift import require_vectors, shifted
from equipoise.models.model import Model
from equipoise.types import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRIDS: dict[str, tuple[float, ...]] = {
    "paper": tuple(k / 100 for k in range(-10, 11)),
    "official": tuple(k / 8 for k in range(-20, 21)),
}
AT_ONCE = 4096  # pairs whose points exist while the means are taken
OF_CLASSES = ("acc1", "acc5", "mean_per_class_recall")

OnProgress = Callable[[int], None]  # given how many pairs are done


def _ignore(done: int) -> None: ...


@dataclass(frozen=True)
class ShiftSweep:
    direction: Tensor  # [d]
    gap: float  # between the means, before
    pairs: int  # that they were taken of
    metric: str
    amounts: tuple[float, ...]
    values: tuple[float, ...]  # of the metric, one per amount

    @property
    def best(self) -> float:
        """The amount with the highest value."""
        return min(zip(self.amounts, self.values, strict=True), key=lambda one: (-one[1], abs(one[0]), one[0]))[0]

    def at(self, amount: float) -> float:
        return self.values[self.amounts.index(amount)]


@torch.no_grad()
def measure_direction(
    model: Model, source: Source, batch_size: int, on_progress: OnProgress = _ignore
) -> tuple[Tensor, float]:
    """g [d] and the length of the gap, of all images and the first caption of each."""
    require_compatible(model, source)
    total = torch.zeros(2, model.space.dim, dtype=torch.float64)
    for start in range(0, len(source), AT_ONCE):
        batch = subset(source, range(start, min(start + AT_ONCE, len(source))))
        images, texts = (
            encode_image_subset(model, batch, range(len(batch)), batch_size),
            captions(batch, 1).points(model),
        )
        if len(texts) < len(images):
            raise UserError("some records of the data have no caption, so they are no pairs; leave them out")
        total += torch.stack([images.double().sum(0), texts.double().sum(0)]).cpu()
        on_progress(start + len(batch))
    apart = (total[0] - total[1]) / len(source)
    gap = float(apart.norm())
    if not gap:
        raise UserError("images and texts have the same mean, so there is no direction to shift them along")
    return (apart / gap).to(model.device, torch.float32), gap


@torch.no_grad()
def sweep_shift(
    model: Model,
    train: Source,
    held_out: Source,
    settings: Evaluation,
    *,
    amounts: Sequence[float] = GRIDS["paper"],
    metric: str = "mean_recall",
    on_progress: OnProgress = _ignore,
) -> ShiftSweep:
    """The direction of `train`, and what each amount makes of `held_out`; 0 is always among the amounts."""
    require_shiftable(model)
    score = _Score.of(metric, held_out, settings)
    direction, gap = measure_direction(model, train, settings.batch_size, on_progress)
    tried = tuple(sorted({0.0, *map(float, amounts)}))
    images, texts = encode_images(model, held_out, settings.batch_size), score.texts(model)

    def value(amount: float) -> float:
        u, v = (shifted(x, direction, amount, tower, model.space) for x, tower in ((images, "image"), (texts, "text")))
        return score(model, u, v)

    return ShiftSweep(direction, gap, len(train), metric, tried, tuple(map(value, tried)))


def require_shiftable(model: Model) -> None:
    """Raises UserError where a model cannot be shifted, or is already."""
    require_vectors(model.space)
    if model.shift is not None:
        raise UserError(
            f"this model is shifted already, by {model.shift.amount:g}; shift the model that it was made of instead"
        )


def selectable_metrics(source: Source) -> tuple[str, ...]:
    """Names of the metrics that can choose an amount."""
    ranked = tuple(retrieval_chance(1, torch.zeros(1, dtype=torch.long))) if has_captions(source) else ()
    return (*ranked, *(OF_CLASSES if is_labelled(source) else ()))


@dataclass(frozen=True)
class _Score:
    """One metric of the held-out data, of points as they were shifted."""

    metric: str
    source: Source
    settings: Evaluation

    @classmethod
    def of(cls, metric: str, source: Source, settings: Evaluation) -> _Score:
        if metric not in (known := selectable_metrics(source)):
            raise UserError(f'"{metric}" is not a metric of the held-out data; choose {", ".join(known)}')
        return cls(metric, source, settings)

    @cached_property
    def _captions(self) -> Captions:
        return captions(self.source, self.settings.captions_of(is_judged(self.source)))

    @cached_property
    def _copies(self) -> Copies | None:
        return counted_copies(self.source, self._captions, self.settings)

    def texts(self, model: Model) -> Tensor:
        """Points of captions [M, d], or of every class's prompts [C, T, d]."""
        if self.metric in OF_CLASSES:
            assert is_labelled(self.source)
            return prompt_points(model, self.source)
        return self._captions.points(model)

    def __call__(self, model: Model, images: Tensor, texts: Tensor) -> float:
        if self.metric in OF_CLASSES:
            assert is_labelled(self.source)
            numbers, truth = labels(self.source)
            found = zero_shot(images[numbers], truth, texts, model.space, self.settings.average, self.settings.chunk)
        else:
            chunk, owners = self.settings.chunk, self._captions.image_of_text
            found = retrieval(images, texts, model.similarity, owners, chunk=chunk, copies=self._copies)
        if self.metric not in found:
            raise UserError(f'the held-out data has too few classes for "{self.metric}"; choose acc1')
        return found[self.metric]


def draw_shift(amounts: Sequence[float], values: Sequence[float], best: float, metric: str, finding: str) -> Figure:
    with style():
        figure = captioned_figure("How far images and texts are shifted towards each other", finding)
        axes = figure.subplots()
        axes.plot(amounts, values, color=SERIES[0], marker=".")
        axes.axhline(values[list(amounts).index(0.0)], color=SERIES[1], linewidth=1, linestyle=(0, (4, 3)))
        axes.plot([best], [values[list(amounts).index(best)]], "o", color=SERIES[0], markersize=7)
        axes.set_xlabel("λ (above 0: closer; the dot: the best; dashed: not shifted)")
        axes.set_ylabel(f"{metric}, held out")
    return figure
