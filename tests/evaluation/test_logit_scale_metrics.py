"""When a logit scale has settled: App. C's rule on curves whose answer is known."""

from __future__ import annotations

import math

import pytest

from equipoise.evaluation.logit_scale import converged_at, first_rest, logit_scale_course


def records(values, every: int = 1, at_bound=None) -> list[dict[str, float]]:
    bound = at_bound or [0.0] * len(values)
    pairs = enumerate(zip(values, bound, strict=True), start=1)
    return [{"step": n * every, "logit_scale": v, "at_bound": b, "loss": 1.0} for n, (v, b) in pairs]


def test_a_constant_logit_scale_has_settled_at_once():
    found = logit_scale_course(records([5.0] * 30), epoch=10)
    assert (found.final, found.converged, found.clamped) == (5.0, 1, 0.0)


def test_a_decaying_approach_rests_where_the_rest_of_an_epoch_changes_it_by_two_percent():
    """τ_k = 10 + 10 e^{-k/20}: brute force over all steps and epochs."""
    values = [10 + 10 * math.exp(-k / 20) for k in range(1, 201)]
    epoch = 15
    expected = next(
        k
        for k in range(1, 201 - epoch)
        if all(abs(values[j - 1] - values[k - 1]) < 0.02 * values[k - 1] for j in range(k, k + epoch + 1))
    )
    found = logit_scale_course(records(values), epoch)
    assert found.first_rest == expected
    for_good = next(k for k in range(1, 201) if all(abs(value / values[k - 1] - 1) < 0.02 for value in values[k - 1 :]))
    assert found.converged == for_good
    assert 1 < expected < for_good < 100


def test_a_curve_that_creeps_has_not_converged_at_its_first_step():
    """6% in all and less than 2% an epoch: the paper's rule says step 10."""
    values = [14.3 * (1 - 0.06 * k / 80) for k in range(1, 81)]
    found = logit_scale_course(records(values, every=10), epoch=200)
    assert found.first_rest == 10
    assert found.converged == next(
        10 * k for k in range(1, 81) if all(abs(value / values[k - 1] - 1) < 0.02 for value in values[k:])
    )
    assert 500 < found.converged < 600


def test_a_logit_scale_that_keeps_rising_never_settles():
    assert logit_scale_course(records([1.01**k for k in range(100)]), epoch=10).converged is None


def test_less_than_an_epoch_says_nothing():
    assert logit_scale_course(records([5.0] * 9), epoch=10).converged is None


def test_it_may_move_again_after_it_rested():
    found = logit_scale_course(records([1.0, 2.0] + [4.0] * 20 + [8.0] * 3), epoch=10)
    assert (found.first_rest, found.converged) == (3, None)


def test_other_records_and_coarse_logging_do_not_disturb():
    logged = records([3.0, 4.0, 4.0, 4.0, 4.0], every=10)
    logged.insert(2, {"step": 20, "validation/mean_recall": 0.5})
    assert logit_scale_course(logged, epoch=20).converged == 20
    assert logit_scale_course([{"step": 1, "loss": 2.0}], epoch=5) is None


def test_the_share_at_the_bound_and_what_the_report_says():
    found = logit_scale_course(records([100.0] * 5 + [50.0] * 15, at_bound=[1.0] * 5 + [0.0] * 15), epoch=10)
    assert found.clamped == 0.25
    assert found.metrics() == {
        "logit_scale/final": 50.0,
        "logit_scale/converged_step": 6.0,
        "logit_scale/first_rest_step": 6.0,
        "logit_scale/clamped_share": 0.25,
    }
    sentence = found.sentence(10)
    assert "ended at 50 (t = 3.91)" in sentence
    assert "from step 6 on" in sentence
    assert "25% of the run" in sentence
    restless = logit_scale_course(records([1.01**k for k in range(100)]), epoch=10)
    assert "logit_scale/converged_step" not in restless.metrics()
    assert "never changed by less than 2%" in restless.sentence(10)
    without_unit = [{**record, "unit_free_t": 0.5} for record in records([5.0] * 30)]
    assert logit_scale_course(without_unit, 10).metrics()["logit_scale/unit_free_t"] == 0.5
    assert "without the space's unit 0.50" in logit_scale_course(without_unit, 10).sentence(10)
    assert "It never met its bound" in restless.sentence(10)


@pytest.mark.parametrize("epoch", [1, 1000])
def test_any_length_of_epoch_is_fine(epoch):
    assert logit_scale_course(records([5.0, 5.0]), epoch).final == 5.0


STEPS = list(range(0, 100, 10))


def by_hand(steps, scales, epoch, tolerance, least=None):
    for i, step in enumerate(steps):
        ahead = [scales[j] for j, other in enumerate(steps) if step < other <= step + epoch]
        whole = steps[-1] >= step + (least or epoch)
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
    assert first_rest(STEPS, scales, epoch) == expected == by_hand(STEPS, scales, epoch, 0.02)
    for_good = by_hand(STEPS, scales, 90, 0.02, least=epoch)
    assert converged_at(STEPS, scales, epoch) == for_good
    assert for_good is None or for_good >= expected


def test_edges():
    for rule in (converged_at, first_rest):
        assert rule([], [], 10) is None
        assert rule([1], [3.0], 10) is None
        assert rule([0, 10, 20], [3.0, 3.2, 3.2], 10, tolerance=0.1) == 0
    assert first_rest([0, 100], [3.0, 3.0], 10) is None  # nothing was logged within the epoch
