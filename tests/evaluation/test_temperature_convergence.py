"""The rule of App. C: within 2% for an epoch."""

from __future__ import annotations

import pytest

from equipoise.evaluation.temperature_convergence import converged_at

STEPS = list(range(0, 100, 10))


def aloud(steps, scales, epoch, tolerance):
    for i, step in enumerate(steps):
        ahead = [scales[j] for j, other in enumerate(steps) if step < other <= step + epoch]
        whole = steps[-1] >= step + epoch
        if whole and ahead and all(abs(scale / scales[i] - 1) < tolerance for scale in ahead):
            return step
    return None


@pytest.mark.parametrize(
    ("scales", "epoch", "expected"),
    [
        ([10.0] * 10, 30, 0),
        ([1, 2, 4, 8, 8.01, 8.02, 8.01, 8, 8, 8], 30, 30),
        ([1.02**number for number in range(10)], 30, None),  # 2% a step is no rest
        ([1.006**number for number in range(10)], 30, 0),  # 1.8% an epoch is
        ([1, 2, 4, 8, 16, 32, 64, 100, 100, 100], 30, None),  # at rest, but not for a whole epoch yet
        ([1, 2, 4, 8, 16, 32, 64, 100, 100, 100], 20, 70),
        ([5, 5, 5, 5, 9, 9, 9, 9, 9, 9], 30, 0),  # the first rest counts
        ([5] * 10, 1000, None),
    ],
)
def test_the_first_step_that_rests_for_an_epoch(scales, epoch, expected):
    assert converged_at(STEPS, scales, epoch) == expected == aloud(STEPS, scales, epoch, 0.02)


def test_edges():
    assert converged_at([], [], 10) is None
    assert converged_at([1], [3.0], 10) is None
    assert converged_at([0, 100], [3.0, 3.0], 10) is None  # nothing was logged within the epoch
    assert converged_at([0, 10, 20], [3.0, 3.2, 3.2], 10, tolerance=0.1) == 0
