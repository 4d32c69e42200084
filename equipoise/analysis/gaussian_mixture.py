"""Small losses and large ones: two Gaussians fitted to numbers, and which of the two each is of.

The split of Li et al. 2020 ("DivideMix") that Huang et al. 2021 (NCR, "Learning with Noisy Correspondence for
Cross-modal Matching") brought to image-text pairs: losses x scaled to [0, 1], two components by expectation
maximisation, the variance no less than a floor; a pair is right with the posterior of the component of the lower mean.

    w_k(x) = π_k N(x; μ_k, σ_k²) / Σ_l π_l N(x; μ_l, σ_l²)
"""

from __future__ import annotations

import numpy as np

FLOOR = 5e-4  # added to each variance, as in their code
STEPS, CLOSE = 500, 1e-9


def lower_posterior(values: np.ndarray) -> np.ndarray:
    """Posterior [N] of the component with the lower mean; 1 everywhere where all values are equal."""
    spread = values.max() - values.min()
    if not spread > 0:
        return np.ones(len(values))
    x = (values - values.min()) / spread
    mean, variance, weight = np.quantile(x, [0.1, 0.9]), np.full(2, x.var() / 4 + FLOOR), np.full(2, 0.5)
    before = -np.inf
    for _ in range(STEPS):
        log_joint = np.log(weight) - 0.5 * (np.log(2 * np.pi * variance) + (x[:, None] - mean) ** 2 / variance)
        log_sum = np.logaddexp(log_joint[:, 0], log_joint[:, 1])
        share = np.exp(log_joint - log_sum[:, None])
        if abs(log_sum.mean() - before) < CLOSE:  # it may fall a little, for the floor moves it off the optimum
            break
        before = log_sum.mean()
        count = share.sum(axis=0) + 1e-12
        mean = share.T @ x / count
        variance = (share * (x[:, None] - mean) ** 2).sum(axis=0) / count + FLOOR
        weight = count / len(x)
    return share[:, int(np.argmin(mean))]
