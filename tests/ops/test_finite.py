from __future__ import annotations

import math

import pytest
import torch

from equipoise.ops.finite import first_not_finite


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_number_among_many_is_found(dtype: torch.dtype, value: float) -> None:
    bad = torch.ones(7, 5, dtype=dtype)
    bad[3, 2] = value
    assert first_not_finite({"a": torch.ones(3), "ids": torch.arange(3), "bad": bad, "worse": bad}) == "bad"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_large_numbers_are_finite_though_their_sum_is_not(dtype: torch.dtype) -> None:
    assert first_not_finite({"large": torch.full((100,), torch.finfo(dtype).max, dtype=dtype)}) is None


def test_opposite_infinities_do_not_cancel() -> None:
    assert first_not_finite({"x": torch.tensor([math.inf, -math.inf])}) == "x"


def test_nothing_is_finite() -> None:
    assert first_not_finite({}) is None
    assert first_not_finite({"empty": torch.zeros(0, 3), "mask": torch.ones(2, dtype=torch.bool)}) is None
