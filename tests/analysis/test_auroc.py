"""The area under the curve against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.analysis.auroc import auroc
from equipoise.types import UserError


@pytest.mark.parametrize("ties", [False, True])
def test_it_is_that_of_scikit_learn(ties):
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed: AUROC is NOT compared")
    rng = np.random.default_rng(0)
    scores = rng.integers(5, size=200) if ties else rng.normal(size=200)
    wrong = rng.random(200) < 0.3
    assert auroc(scores, wrong) == pytest.approx(metrics.roc_auc_score(~wrong, scores), abs=1e-12)


def test_perfect_reversed_and_blind():
    wrong = np.array([True, True, False, False])
    assert auroc(np.array([0.0, 1, 2, 3]), wrong) == 1
    assert auroc(np.array([3.0, 2, 1, 0]), wrong) == 0
    assert auroc(np.zeros(4), wrong) == 0.5


def test_one_kind_alone_is_one_sentence():
    with pytest.raises(UserError, match="2 right and 0 wrong"):
        auroc(np.zeros(2), np.zeros(2, dtype=bool))
