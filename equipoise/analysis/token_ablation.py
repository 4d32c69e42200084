"""How much each class token carries: accuracy with random subsets of the sub-spheres.

Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", App. H and Table 11: zero-shot accuracy
of Multi(32, 16) with 1, 2, 4 and 8 tokens drawn at random, mean ± standard deviation.

    points [N, m·n] -> [N, m, n], chunks outside the subset set to zero, on both sides -> [N, m·n]

m comes from the space; a space without sub-spheres has nothing to leave out. With the inner product a chunk of zeros
adds nothing to the similarity. With the geodesic distance it adds the same to all of them, so that the order of single
similarities is that of the subset. The paper does not say how many subsets it drew; here up to `draws` different ones,
or all there are where they are fewer. The deviation is that of a sample (n - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from equipoise.data.rng import generator
from equipoise.spaces import Space
from equipoise.types import UserError

Measure = Callable[[Callable[[Tensor], Tensor]], float]  # given what to do with points, an accuracy


@dataclass(frozen=True)
class Subsets:
    """Accuracies with some number of tokens."""

    tokens: int
    accuracies: list[float]  # one a subset

    @property
    def mean(self) -> float:
        return math.fsum(self.accuracies) / len(self.accuracies)

    @property
    def deviation(self) -> float:
        """0 where there is one subset only."""
        squares = math.fsum((accuracy - self.mean) ** 2 for accuracy in self.accuracies)
        return math.sqrt(squares / max(1, len(self.accuracies) - 1))


def sub_spheres(space: Space) -> int:
    """m, or a sentence where it is 1."""
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
