from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data.rng import generator
from equipoise.data.sampling import EpochSampler
from equipoise.types import UserError


@given(samples=st.integers(1, 60), share=st.floats(0, 1), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 9))
def test_an_epoch_visits_every_sample_once_but_for_the_rest(samples: int, share: float, seed: int, epoch: int) -> None:
    size = max(1, int(share * samples))
    order = EpochSampler(samples, size, seed)
    first = epoch * order.batches_per_epoch
    visited = [index for k in range(order.batches_per_epoch) for index in order.batch(first + k)]
    assert len(visited) == len(set(visited)) == samples - samples % size
    assert set(visited) <= set(range(samples))


@given(positions=st.lists(st.integers(0, 50), min_size=1, max_size=8), seed=st.integers(0, 1000))
def test_a_batch_depends_on_seed_and_position_alone(positions: list[int], seed: int) -> None:
    used = EpochSampler(20, 6, seed)
    for position in positions:
        assert used.batch(position) == EpochSampler(20, 6, seed).batch(position)


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    whole = EpochSampler(100, 100, 0)
    assert sorted(whole.batch(0)) == list(range(100))
    assert whole.batch(0) != whole.batch(1)
    assert whole.batch(0) != EpochSampler(100, 100, 1).batch(0)
    assert whole.batch(0) != list(range(100))


@pytest.mark.parametrize("samples", [1, 2, 255, 70_000])
def test_the_order_is_that_of_64_bit_numbers_in_half_the_memory(samples: int) -> None:
    order = EpochSampler(samples, samples, 3)
    for epoch in (0, 5):
        assert order.batch(epoch) == torch.randperm(samples, generator=generator(3, "order", epoch)).tolist()
    assert order._shuffled.element_size() == 4


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(UserError, match="batch_size 17 is larger than the 16 training samples"):
        EpochSampler(16, 17, 0)
    assert sorted(EpochSampler(16, 16, 0).batch(3)) == list(range(16))
