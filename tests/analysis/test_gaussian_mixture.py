"""Two Gaussians: against scikit-learn, and where nothing can be told."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.analysis.gaussian_mixture import FLOOR, lower_posterior


def losses(share: float = 0.3, count: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    wrong = rng.random(count) < share
    return np.where(wrong, rng.normal(7, 1.5, count), rng.normal(2, 1.0, count)), wrong


def test_the_posterior_is_scikit_learns():
    mixture = pytest.importorskip("sklearn.mixture")
    values, _ = losses()
    scaled = ((values - values.min()) / (values.max() - values.min()))[:, None]
    peer = mixture.GaussianMixture(2, reg_covar=FLOOR, max_iter=2000, tol=1e-9, random_state=0).fit(scaled)
    expected = peer.predict_proba(scaled)[:, peer.means_.argmin()]
    assert lower_posterior(values) == pytest.approx(expected, abs=2e-3)


def test_small_losses_are_told_from_large_ones():
    values, wrong = losses()
    assert np.mean((lower_posterior(values) < 0.5) == wrong) > 0.96


def test_equal_losses_tell_nothing():
    assert lower_posterior(np.full(5, 2.0)).tolist() == [1.0] * 5
