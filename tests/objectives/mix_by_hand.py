"""Oh et al. 2023, App. B and D, read aloud: loops, float64, plain logarithms, on the unit sphere."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

Vector = list[float]
Matrix = list[list[float]]
Weights = Sequence[float] | None


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def mix(lam: float, a: Vector, b: Vector) -> Vector:
    """geodesic_mix of Algorithm 1; where it divides by zero, the limit for equal vectors."""
    theta = math.acos(max(-1.0, min(1.0, dot(a, b))))
    if theta < 1e-12:
        return list(a)
    first, second = math.sin(lam * theta) / math.sin(theta), math.sin((1 - lam) * theta) / math.sin(theta)
    return [first * x + second * y for x, y in zip(a, b, strict=True)]


def cross_entropy(logits: Matrix, targets: Matrix) -> float:
    """ce of Algorithm 1, as a mean over rows (Eq. 6)."""
    total = 0.0
    for z, p in zip(logits, targets, strict=True):
        highest = max(z)
        lse = highest + math.log(sum(math.exp(x - highest) for x in z))
        total += sum(share * (lse - x) for share, x in zip(p, z, strict=True))
    return total / len(logits)


def transposed(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def both_ways(logits: Matrix, targets: Matrix, by_column: Matrix | None = None) -> float:
    """cross_entropy_2D; columns may have a target of their own."""
    other = targets if by_column is None else by_column
    return (cross_entropy(logits, targets) + cross_entropy(transposed(logits), transposed(other))) / 2


def masses(weights: Weights, n: int) -> list[float]:
    """How often each pair counts."""
    return [1.0] * n if weights is None else [n * w / sum(weights) for w in weights]


def of_rows(matrix: Matrix, mass: Sequence[float]) -> Matrix:
    return [[m * x for x in row] for row, m in zip(matrix, mass, strict=True)]


def of_columns(matrix: Matrix, mass: Sequence[float]) -> Matrix:
    return [[m * x for x, m in zip(row, mass, strict=True)] for row in matrix]


def eye(n: int) -> Matrix:
    return [[float(i == j) for j in range(n)] for i in range(n)]


def mirror(n: int) -> Matrix:
    return [[float(i + j == n - 1) for j in range(n)] for i in range(n)]


def scaled(matrix: Matrix, scale: float) -> Matrix:
    return [[scale * x for x in row] for row in matrix]


def m2(image: Tensor, text: Tensor, lam: float, scale: float, reading: str, weights: Weights = None) -> float:
    i_, t_ = image.tolist(), text.tolist()
    n = len(i_)
    own = [dot(i_[k], t_[k]) for k in range(n)]
    mixed = [mix(lam, i_[k], t_[k]) for k in range(n)]
    entries = {
        "pseudo_code": (lambda i, j: dot(mixed[i], t_[j]), lambda i, j: dot(mixed[i], i_[j])),
        "released": (lambda i, j: dot(i_[i], mixed[j]), lambda i, j: dot(t_[i], mixed[j])),
        "proof": (
            lambda i, j: dot(i_[i], mix(lam, i_[i], t_[j])),
            lambda i, j: dot(t_[i], mix(lam, t_[i], i_[j])),
        ),
    }[reading]
    halves = [[[own[i] if i == j else entry(i, j) for j in range(n)] for i in range(n)] for entry in entries]
    return sum(cross_entropy(scaled(half, scale), of_rows(eye(n), masses(weights, n))) for half in halves) / 2


def v(
    image: Tensor, text: Tensor, lam: float, scale: float, original_negatives: bool = True, weights: Weights = None
) -> float:
    i_, t_ = image.tolist(), text.tolist()
    n = len(i_)
    mixed = [mix(lam, i_[k], i_[n - 1 - k]) for k in range(n)]
    crossed = lambda i, j: i == j or i + j == n - 1 or not original_negatives  # noqa: E731
    logits = [[dot(mixed[i] if crossed(i, j) else i_[i], t_[j]) for j in range(n)] for i in range(n)]
    return both_ways(scaled(logits, scale), of_columns(shared(n, lam, 1 - lam), masses(weights, n)))


def vocal(
    image: Tensor, text: Tensor, lam: float, scale: float, original_negatives: bool = True, weights: Weights = None
) -> float:
    """L-Mix, which the pseudo-code omits: the texts are mixed."""
    i_, t_ = image.tolist(), text.tolist()
    n = len(i_)
    mixed = [mix(lam, t_[k], t_[n - 1 - k]) for k in range(n)]
    crossed = lambda i, j: i == j or i + j == n - 1 or not original_negatives  # noqa: E731
    logits = [[dot(i_[i], mixed[j] if crossed(i, j) else t_[j]) for j in range(n)] for i in range(n)]
    return both_ways(scaled(logits, scale), of_rows(shared(n, lam, 1 - lam), masses(weights, n)))


def vl(
    image: Tensor, text: Tensor, lam: float, scale: float, original_negatives: bool = True, weights: Weights = None
) -> float:
    i_, t_ = image.tolist(), text.tolist()
    n = len(i_)
    images = [mix(lam, i_[k], i_[n - 1 - k]) for k in range(n)]
    texts = [mix(lam, t_[k], t_[n - 1 - k]) for k in range(n)]
    own = masses(weights, n)
    mass = [lam * own[k] + (1 - lam) * own[n - 1 - k] for k in range(n)]
    if not original_negatives:
        logits = [[dot(images[i], texts[j]) for j in range(n)] for i in range(n)]
        target = shared(n, 1.0, 1.0)
        return both_ways(scaled(logits, scale), of_rows(target, mass), of_columns(target, mass))
    logits = [[dot(images[i], texts[i]) if i == j else dot(i_[i], t_[j]) for j in range(n)] for i in range(n)]
    return both_ways(scaled(logits, scale), of_rows(eye(n), mass))


def shared(n: int, own: float, other: float) -> Matrix:
    return [[own * a + other * b for a, b in zip(*rows, strict=True)] for rows in zip(eye(n), mirror(n), strict=True)]


def clip(image: Tensor, text: Tensor, scale: float, weights: Weights = None) -> float:
    logits = [[scale * dot(a, b) for b in text.tolist()] for a in image.tolist()]
    return both_ways(logits, of_rows(eye(len(logits)), masses(weights, len(logits))))


def linear(values: Sequence[float], step: int, steps: int) -> float:
    return values[0] + (values[1] - values[0]) * (step - 1) / (steps - 1)
