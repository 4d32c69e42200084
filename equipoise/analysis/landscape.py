"""The loss around a trained model: its shape at two logit scales, and its gradient along a line at many.

Li et al. 2018, "Visualizing the Loss Landscape of Neural Nets", §4 (filter-wise normalised random directions);
Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", §2.4 and Fig. 4.

    L(α, β; τ) = L_c(w + α δ + β η; τ),      δ_f ← δ_f ‖w_f‖ / ‖δ_f‖  for every filter f
    G(α, τ) = ‖∇_w L_c(w + α δ; τ)‖

w all weights but the logit scale; δ, η Gaussian directions, a filter being the weights that make one output (for a
map kept as [in, out], as a readout's, a row of it all the same). Vectors (biases, norms) are not moved, as in the
authors' code. L_c is CLIP's loss of one batch in the model's space, whatever the model was trained with, so that models
can be compared. Logit scales are taken at their word: a model's own bound on them does not apply.
Points do not depend on t, so the batch is encoded once for every place and compared at every logit scale.
The weights come back bit for bit, whatever happens.

`draw_landscape` is Fig. 4: contours of the loss at two logit scales, and the norm of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from equipoise.data.rng import generator
from equipoise.io.figures import INK, captioned_figure, panel_title, style
from equipoise.models.model import Model
from equipoise.objectives import CLIP
from equipoise.types import Batch, Embeddings, UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import ContourSet
    from matplotlib.figure import Figure

Direction = dict[str, Tensor]  # by the parameter's name
OnProgress = Callable[[int], Any]  # given how many places are done
COLOURS = "cividis"  # even to the eye, with any colour vision
LEVELS = 14


def random_direction(model: nn.Module, seed: int, purpose: str) -> Direction:
    """A Gaussian direction whose every filter is as long as the model's; vectors and scalars stay where they are."""
    direction = {}
    for name, weight in model.named_parameters():
        if weight.ndim < 2:
            continue
        drawn = torch.randn(weight.shape, generator=generator(seed, purpose, name), dtype=weight.dtype)
        drawn = drawn.to(weight.device)
        lengths, wanted = (_filter_norms(tensor) for tensor in (drawn, weight.detach()))
        direction[name] = drawn * (wanted / lengths.clamp(min=torch.finfo(weight.dtype).tiny))
    if not direction:
        raise UserError("this model has no matrices to move; there is no landscape to draw")
    return direction


def _filter_norms(weight: Tensor) -> Tensor:
    return weight.flatten(1).norm(dim=1).view(-1, *(1 for _ in weight.shape[1:]))


def cosine(one: Direction, other: Direction) -> float:
    """How far from a right angle two directions are; near 0 for random ones in many dimensions."""
    inner, first, second = (
        sum(float((a[name].double() * b[name].double()).sum()) for name in one)
        for a, b in ((one, other), (one, one), (other, other))
    )
    return inner / math.sqrt(first * second)


@contextmanager
def left_as_found(model: nn.Module) -> Iterator[None]:
    """Weights, gradients and mode of the model are the same afterwards, to the bit."""
    kept = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    gradients, was_training = {name: weight.grad for name, weight in model.named_parameters()}, model.training
    try:
        model.eval()
        yield
    finally:
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(kept[name])
                weight.grad = gradients[name]
        model.train(was_training)


@torch.no_grad()
def _move(model: nn.Module, start: Direction, *steps: tuple[float, Direction]) -> None:
    """Put the weights at start + Σ step·direction; always from the start, so that rounding does not add up."""
    for name, weight in model.named_parameters():
        if name in start:
            weight.copy_(start[name])
            for length, direction in steps:
                weight.add_(direction[name], alpha=length)


def _start(model: nn.Module, direction: Direction) -> Direction:
    return {name: weight.detach().clone() for name, weight in model.named_parameters() if name in direction}


def loss_surface(
    model: Model, batch: Batch, directions: tuple[Direction, Direction], places: Sequence[float],
    scales: Sequence[float], on_progress: OnProgress = lambda _: None,
) -> Tensor:  # fmt: skip
    """Losses [T, A, B] at w + places[a]·δ + places[b]·η, for T logit scales."""
    losses = torch.empty(len(scales), len(places), len(places), dtype=torch.float64)
    with left_as_found(model), torch.no_grad():
        start = _start(model, directions[0])
        for a, first in enumerate(places):
            for b, second in enumerate(places):
                _move(model, start, (first, directions[0]), (second, directions[1]))
                points = model(batch)
                losses[:, a, b] = torch.stack([_loss(points, model, scale) for scale in scales]).double().cpu()
                on_progress(a * len(places) + b + 1)
    return losses


def gradient_norms(
    model: Model, batch: Batch, direction: Direction, places: Sequence[float], scales: Sequence[float],
    on_progress: OnProgress = lambda _: None,
) -> Tensor:  # fmt: skip
    """Norms [T, A] of the gradient by all weights but the logit scale, at w + places[a]·δ."""
    norms = torch.empty(len(scales), len(places), dtype=torch.float64)
    weights = [p for name, p in model.named_parameters() if p.requires_grad and name != "logit_scale"]
    with left_as_found(model):
        start = _start(model, direction)
        for a, place in enumerate(places):
            _move(model, start, (place, direction))
            points = model(batch)
            for t, scale in enumerate(scales):
                gradients = torch.autograd.grad(
                    _loss(points, model, scale), weights, retain_graph=t + 1 < len(scales), allow_unused=True
                )
                squares = [gradient.double().square().sum() for gradient in gradients if gradient is not None]
                norms[t, a] = torch.stack(squares).sum().sqrt().cpu()
            on_progress(a + 1)
    return norms


def _loss(points: Embeddings, model: Model, scale: float) -> Tensor:
    return CLIP()(points, log_scale=math.log(scale), space=model.space).total


def draw_landscape(
    losses: np.ndarray, places: Sequence[float], at: Sequence[float],
    norms: np.ndarray, line: Sequence[float], scales: Sequence[float], finding: str,
) -> Figure:  # fmt: skip
    """`losses` [2, A, B] at the logit scales `at`; `norms` [T, A] at the places `line`, the logit scales `scales`."""
    with style():
        figure = captioned_figure("The loss around the model", finding, width=10.5, height=3.9)
        panels = figure.subplots(1, 3)
        for axes, surface, scale in zip(panels, losses, at, strict=False):
            _contours(figure, axes, surface, places)
            panel_title(axes, f"Loss at logit scale {scale:g}")
        _norms(figure, panels[2], norms, line, scales)
        panel_title(panels[2], "Norm of the gradient along δ")
    return figure


def _contours(figure: Figure, axes: Axes, surface: np.ndarray, places: Sequence[float]) -> None:
    filled = axes.contourf(places, places, surface.T, LEVELS, cmap=COLOURS)
    axes.contour(places, places, surface.T, LEVELS, colors="white", linewidths=0.4, alpha=0.6)
    axes.plot([0], [0], "+", color="white", markersize=9, markeredgewidth=1.6)
    axes.set_xlabel("along δ")
    axes.set_ylabel("along η")
    axes.set_box_aspect(1)
    axes.grid(False)
    _bar(figure, axes, filled)


def _norms(figure: Figure, axes: Axes, norms: np.ndarray, line: Sequence[float], scales: Sequence[float]) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    lowest = max(float(norms.min()), float(norms.max()) * 1e-6, 1e-30)
    levels = np.geomspace(lowest, max(float(norms.max()), lowest * 1.01), LEVELS)
    filled = axes.contourf(
        line, scales, norms, levels, cmap=f"{COLOURS}_r", norm=LogNorm(levels[0], levels[-1]), extend="min"
    )
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator([1, 3, 10, 30, 100, 300, 1000]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.set_xlabel("along δ")
    axes.set_ylabel("logit scale exp(t)")
    axes.set_box_aspect(1)
    axes.grid(False)
    _bar(figure, axes, filled, [10.0**power for power in range(-8, 9)])


def _bar(figure: Figure, axes: Axes, filled: ContourSet, ticks: Sequence[float] | None = None) -> None:
    from matplotlib.ticker import FuncFormatter

    shown = FuncFormatter(lambda value, _: f"{value:.3g}")
    bar = figure.colorbar(filled, ax=axes, shrink=0.82, pad=0.02, ticks=ticks, format=shown)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(labelsize=8)
