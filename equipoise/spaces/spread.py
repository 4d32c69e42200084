"""The spread of a space: the standard deviation of the similarity of two points drawn at random.

Logits of random points have the standard deviation exp(t)·spread, whatever the space: `t + ln spread` is a temperature
without units, which may be compared between spaces where t may not (`models/logit_scale.py`).

    sphere in n dimensions            Var⟨u, v⟩ = 1/n                    so spread = n^-½
    product of m, inner product       Var Σ_k ⟨u_k, v_k⟩ = m/n           so spread = (m/n)^½
    product of m, geodesic            Var √S, S = Σ_k θ_k²
    N(0, I) in d dimensions, ‖u - v‖  √2 · sd of the chi distribution    at the start of a Euclidean run

θ has the density sin^{n-2} θ on [0, π]. There is no closed form for √S; its mean is an integral over the Laplace
transform of S, a power of that of one θ²,

    E √S = 1/(2√π) ∫_0^∞ (1 - (E e^{-z θ²})^m) z^{-3/2} dz,        E S = m E θ²

which the trapezoidal rule over ln z gives to about 12 digits: the integrand is smooth and falls off at both ends.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

LARGE = 1000
NODES = 200  # of θ, by Gauss and Legendre
WIDTH = 12.0  # standard deviations of θ about π/2 that count
STEP, FAR = 0.05, 70.0  # of ln z, about the reciprocal of E S; exp(-FAR/2) is lost at either end


@cache
def geodesic_spread(n: int, m: int) -> float:
    """Standard deviation of the geodesic distance of random points on a product of m spheres in n dimensions."""
    angle, weight = _angles(n)
    squares = angle**2
    mean = m * float(weight @ squares)  # E S
    z = np.exp(np.arange(-FAR, FAR + STEP / 2, STEP)) / mean
    below_one = np.maximum(np.expm1(-np.outer(z, squares)) @ weight, -1.0)  # E e^{-z θ²} - 1
    with np.errstate(divide="ignore"):  # log 0, whose exponential is 0
        log_transform = m * np.log1p(below_one)
    root = STEP * float(np.sum(-np.expm1(log_transform) * z**-0.5)) / (2 * math.sqrt(math.pi))
    return math.sqrt(max(mean - root**2, 0.0))


@cache
def gaussian_spread(dim: int) -> float:
    """Standard deviation of the distance of two points of N(0, I) in `dim` dimensions."""
    if dim > LARGE:  # where the difference below has lost its digits
        return math.sqrt(2 * (0.5 - 1 / (8 * dim) - 1 / (16 * dim**2)))
    mean = math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2))  # of the chi distribution, over √2
    return math.sqrt(2 * (dim - 2 * mean**2))


def _angles(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of the angle between random unit vectors in n dimensions, and weights that sum to 1."""
    half = min(math.pi / 2, WIDTH / math.sqrt(n))
    place, weight = np.polynomial.legendre.leggauss(NODES)
    angle = math.pi / 2 + half * place
    density = weight * np.exp((n - 2) * np.log(np.sin(angle)))
    return angle, density / density.sum()
