"""How much each class token carries: accuracy with random subsets of the sub-spheres.

Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", App. H and Table 11: zero-shot accuracy
of Multi(32, 16) with 1, 2, 4 and 8 tokens drawn at random, mean ± standard deviation.

    points [N, m·n] -> [N, m, n], chunks outside the subset set to zero, on both sides -> [N, m·n]

m comes from the space; a space without sub-spheres has nothing to leave out. A chunk of zeros on both sides adds
nothing to the similarity, neither to the inner product nor to the geodesic distance (its chords are 0, and so is its
angle), so that similarities are those of the product of the spheres that are kept. The paper does not say how many
subsets it drew; here up to `draws` different ones, or all there are where they are fewer. The deviation is that of a
sample (n - 1).

`draw_tokens` shows Table 11: accuracy over the number of tokens kept, every subset a dot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equipoise.data.rng import generator
from equipoise.io.figures import INK, SERIES, captioned_figure, style
from equipoise.spaces import Space
from equipoise.types import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Measure = Callable[[Callable[[Tensor], Tensor]], float]  # given what to do with points, an accuracy


@dataclass(frozen=True)
class Subsets:
    """Accuracies with some number of tokens."""

    tokens: int
    accuracies: list[float]  # one per subset

    @property
    def mean(self) -> float:
        return math.fsum(self.accuracies) / len(self.accuracies)

    @property
    def deviation(self) -> float:
        """0 where there is one subset only."""
        squares = math.fsum((accuracy - self.mean) ** 2 for accuracy in self.accuracies)
        return math.sqrt(squares / max(1, len(self.accuracies) - 1))


def sub_spheres(space: Space) -> int:
    """m; raises UserError where it is 1."""
    m = getattr(space, "m", 1)
    if m < 2:
        raise UserError(
            f"this model's space ({type(space).__name__}) has a single sub-sphere, so no tokens can be left out; "
            "give a model whose space is a product of several"
        )
    return int(m)


def counts_for(m: int) -> list[int]:
    """1, 2, 4, ... and m itself."""
    return [*(2**power for power in range(m.bit_length()) if 2**power < m), m]


def subset_accuracies(measure: Measure, m: int, draws: int, seed: int) -> list[Subsets]:
    """`measure` with 1, 2, 4, ..., m of m tokens kept."""
    if draws < 1:
        raise UserError(f"at least 1 subset must be drawn, not {draws}")
    return [
        Subsets(count, [measure(keeping(subset, m)) for subset in draw_subsets(m, count, draws, seed)])
        for count in counts_for(m)
    ]


def keeping(subset: tuple[int, ...], m: int) -> Callable[[Tensor], Tensor]:
    """What sets all chunks of points [..., m·n] outside the subset to zero."""

    def mask(points: Tensor) -> Tensor:
        kept = torch.zeros(m, 1, dtype=points.dtype, device=points.device)
        kept[list(subset)] = 1
        return (points.unflatten(-1, (m, -1)) * kept).flatten(-2)

    return mask


def draw_subsets(m: int, count: int, draws: int, seed: int) -> list[tuple[int, ...]]:
    """Different subsets of `count` of m tokens: all of them where there are no more than `draws`."""
    if math.comb(m, count) <= draws:
        return list(combinations(range(m), count))
    chance, found = generator(seed, "tokens", count), dict[tuple[int, ...], None]()
    while len(found) < draws:
        found[tuple(sorted(torch.randperm(m, generator=chance)[:count].tolist()))] = None
    return list(found)


def draw_tokens(found: Sequence[Subsets], chance: float, what: str, finding: str) -> Figure:
    """`what` names the accuracy, `chance` is what guessing scores."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    with style():
        figure = captioned_figure("With some of the class tokens", finding, width=6.5, height=4.0)
        axes = figure.subplots()
        axes.set_xscale("log", base=2)
        for one in found:
            axes.plot(
                [one.tokens] * len(one.accuracies), one.accuracies, "o", color=SERIES[0], alpha=0.25, markersize=4
            )
        counts, means = [one.tokens for one in found], [one.mean for one in found]
        axes.errorbar(counts, means, [one.deviation for one in found], color=SERIES[0], capsize=3, marker="o",
                      markersize=6, label="mean ± standard deviation")  # fmt: skip
        for one in found:
            axes.annotate(f"{100 * one.mean:.1f}", (one.tokens, one.mean), (7, -11), textcoords="offset points")
        axes.axhline(chance, color=INK, linewidth=1, linestyle=(0, (3, 2)), label="guessing")
        axes.xaxis.set_major_locator(FixedLocator(counts))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f}%"))
        axes.set_ylim(bottom=0)
        axes.margins(x=0.09)
        axes.set_xlabel(f"class tokens kept, of {found[-1].tokens}")
        axes.set_ylabel(what)
        axes.legend(loc="upper left")
    return figure
