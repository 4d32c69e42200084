"""The loss that a person watches is the mean of the last steps; what is logged is the loss of one step."""

from __future__ import annotations

import pytest
import torch

from equipoise.training.logging.running_mean import RunningMean


def test_the_mean_of_the_last_values() -> None:
    shown, values = RunningMean(window=4), torch.linspace(0, 3, 13, dtype=torch.float64, requires_grad=True)
    for number, value in enumerate(values):
        shown.add(value)
        last = values.detach()[max(0, number - 3) : number + 1]
        assert shown.mean() == pytest.approx(last.mean().item(), rel=1e-6)


def test_a_value_that_is_written_over_later_counts_as_it_was() -> None:
    shown, place = RunningMean(), torch.tensor(2.0)
    shown.add(place)
    place.fill_(100.0)
    shown.add(torch.tensor(4.0))
    assert shown.mean() == 3.0
