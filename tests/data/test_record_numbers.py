"""Numbers in little memory are the same numbers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.data.record_numbers import BLOCK, Selection, record_numbers


@pytest.mark.parametrize(
    ("most", "dtype"), [(255, "uint8"), (256, "uint16"), (1 << 16, "uint32"), (1 << 32, "int64"), (-1, "int64")]
)
def test_the_smallest_type_that_holds_all(most, dtype):
    found = record_numbers([0, most])
    assert (found.tolist(), found.dtype) == ([0, most], np.dtype(dtype))
    assert record_numbers(found) is found


def test_ranges_and_nothing():
    assert record_numbers(range(7, 1, -2)).tolist() == [7, 5, 3]
    assert record_numbers([]).tolist() == record_numbers(range(0)).tolist() == []


@given(st.integers(0, 5 * BLOCK), st.sampled_from((0.0, 0.01, 0.5, 0.99, 1.0)), st.integers(0, 99))
@settings(max_examples=40)
def test_a_selection_is_the_places_of_true(count, share, seed):
    chosen = np.random.default_rng(seed).random(count) < share
    expected, found = np.flatnonzero(chosen).tolist(), Selection(chosen)
    assert [found[index] for index in range(len(found))] == expected
    assert [found[index - len(expected)] for index in range(len(expected))] == expected
    for beyond in (len(expected), -len(expected) - 1):
        with pytest.raises(IndexError):
            found[beyond]


def test_a_selection_takes_a_bit_of_each_record():
    assert len(pickle.dumps(Selection(np.arange(100_000) % 20 > 0))) < 100_000 / 8 * 1.1 + 500
