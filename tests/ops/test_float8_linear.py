"""Products of 8-bit floats against float64 products of numbers rounded aloud: the nearest of all 253 that there are."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from equipoise.ops import round_rows
from equipoise.ops.float8_linear import Float8Linear, scaled_product, use_float8
from equipoise.ops.round_rows import by_torch
from equipoise.types import UserError

DEVICE = "cuda" if torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9) else "cpu"


def has_products() -> bool:
    """Some versions of torch have none on some processors."""
    try:
        scaled_product(torch.zeros(16, 16, device=DEVICE), torch.zeros(16, 16, device=DEVICE))
    except (RuntimeError, NotImplementedError):
        return False
    return True


needs_products = pytest.mark.skipif(not has_products(), reason="this torch has no 8-bit products on this processor")


def eight_bits() -> Tensor:
    """Every finite e4m3 number by its definition: sign, 4 bits of exponent (bias 7), 3 of mantissa."""
    found = set()
    for exponent in range(16):
        for mantissa in range(8):
            if (exponent, mantissa) != (15, 7):  # NaN
                size = mantissa / 8 * 2**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
                found |= {size, -size}
    return torch.tensor(sorted(found), dtype=torch.float64)


NUMBERS = eight_bits()


def rounded(rows: Tensor) -> Tensor:
    """Rows as what 8 bits keep of them, in float64."""
    rows = rows.detach().cpu().double()
    scale = rows.abs().amax(1, keepdim=True) / 448
    scale = torch.where(scale > 0, scale, 1)
    nearest = ((rows / scale)[..., None] - NUMBERS).abs().argmin(-1)
    return NUMBERS[nearest] * scale


def off(got: Tensor, wanted: Tensor) -> float:
    assert got.isfinite().all()
    return float((got.detach().cpu().double() - wanted).norm() / wanted.norm())


def made(*shape: int, seed: int = 0) -> Tensor:
    """Rows of very different sizes."""
    noise = torch.Generator().manual_seed(seed)
    rows = torch.randn(*shape, generator=noise)
    return (rows * 10 ** (4 * torch.rand(*shape[:-1], 1, generator=noise) - 2)).to(DEVICE)


def test_the_largest_number_of_a_row_fills_the_range():
    rows = made(40, 32)
    numbers, scale = by_torch(rows)
    assert numbers.dtype == torch.float8_e4m3fn
    assert numbers.float().abs().amax(1).tolist() == [448.0] * 40
    torch.testing.assert_close(rounded(rows), (numbers.float() * scale).cpu().double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("count", "width"), [(1, 16), (37, 48), (5, 3072)])
def test_the_kernel_rounds_as_torch_does(count, width, dtype):
    """But for ties. Triton's interpreter forgets the carry where rounding up reaches a power of two; a GPU does not."""
    pytest.importorskip("triton", reason="Triton is not installed: the kernel is NOT tested")
    rows = made(count, width).to(dtype)
    rows[0, :16] = 0
    (numbers, scale), (wanted, exact) = round_rows._by_kernel(rows), by_torch(rows)
    torch.testing.assert_close(scale, exact, rtol=1e-6, atol=0)
    numbers, wanted, whole = numbers.float(), wanted.float(), rows.float() / exact
    carried = (wanted.abs() > whole.abs()) & (wanted.abs().log2() % 1 == 0) & (DEVICE == "cpu")
    torch.testing.assert_close(numbers[~carried], wanted[~carried], rtol=0.13, atol=2**-9)  # the next number at most
    assert float((numbers == wanted)[~carried].float().mean()) > 0.98
    assert float(carried.float().mean()) < 0.05


@pytest.mark.filterwarnings("ignore:invalid value")
def test_rows_of_zeros_and_what_is_not_finite_by_the_kernel():
    pytest.importorskip("triton", reason="Triton is not installed: the kernel is NOT tested")
    rows = made(4, 32)
    rows[1], rows[2, 3], rows[3, 0] = 0, math.nan, math.inf
    numbers, scale = round_rows._by_kernel(rows)
    back = numbers.float() * scale
    assert not back[1].any()
    assert back[0].isfinite().all()
    assert scale[2:].isnan().all()  # so that every product of these rows is NaN, whatever 8 bits make of them
    assert round_rows._by_kernel(rows[:0])[0].shape == (0, 32)


@needs_products
def test_a_product_is_that_of_the_rounded_numbers():
    a, b, bias = made(24, 48), made(32, 48, seed=1), torch.randn(32).to(DEVICE, torch.bfloat16)
    wanted = rounded(a) @ rounded(b).T
    assert off(scaled_product(a, b), wanted) < 4e-3  # the result is bfloat16
    assert off(scaled_product(a, b, bias), wanted + bias.cpu().double()) < 4e-3
    assert off(scaled_product(a, b), a.cpu().double() @ b.cpu().double().T) < 6e-2  # what 8 bits cost


@needs_products
def test_a_linear_map_and_its_gradients():
    plain = nn.Linear(32, 48).to(DEVICE)
    linear = Float8Linear(plain)
    x = made(2, 20, 32).to(torch.bfloat16).requires_grad_()
    g = made(2, 20, 48, seed=2).to(torch.bfloat16)
    y = linear(x)
    assert (y.shape, y.dtype) == ((2, 20, 48), torch.bfloat16)
    y.backward(g)
    rows, upstream = (t.detach().flatten(0, 1).cpu().double() for t in (x, g))
    weight, bias = (p.detach().cpu().double() for p in (plain.weight, plain.bias))
    assert off(y.flatten(0, 1), rounded(rows) @ rounded(weight).T + bias) < 4e-3
    assert off(x.grad.flatten(0, 1), rounded(upstream) @ rounded(weight.T).T) < 5e-3
    assert linear.weight is plain.weight
    assert (plain.weight.grad.dtype, plain.bias.grad.dtype) == (torch.float32, torch.float32)
    assert off(plain.weight.grad, upstream.T @ rows) < 4e-3
    assert off(plain.bias.grad, upstream.sum(0)) < 1e-5


def test_evaluation_is_the_plain_map():
    plain = nn.Linear(32, 16).to(DEVICE)
    x = made(5, 32)
    assert torch.equal(Float8Linear(plain).eval()(x), plain(x))


@needs_products
def test_zeros_stay_and_what_is_not_finite_is_noticed():
    rows = made(4, 16)
    rows[1], rows[2, 3], rows[3, 0] = 0, math.nan, math.inf
    got = scaled_product(rows, made(16, 16, seed=1))
    assert not got[1].any()
    assert got[0].isfinite().all()
    assert not got[2].isfinite().any()
    assert not got[3].isfinite().any()


@pytest.mark.slow
@needs_products
@pytest.mark.parametrize("by_kernel", [False, True])
def test_a_compiled_map_is_one_graph(monkeypatch, by_kernel):
    monkeypatch.setattr(round_rows, "usable", lambda _: by_kernel)
    linear = Float8Linear(nn.Linear(32, 16).to(DEVICE))
    compiled = torch.compile(linear, fullgraph=True, backend="aot_eager")
    for tokens in (6, 9, 11):
        x = made(tokens, 32).to(torch.bfloat16).requires_grad_()
        again = x.detach().clone().requires_grad_()
        got, wanted = compiled(x), linear(again)
        assert torch.equal(got, wanted)
        got.float().sum().backward()
        wanted.float().sum().backward()
        assert torch.equal(x.grad, again.grad)


@needs_products
def test_modules_are_exchanged_under_their_names():
    block = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Sequential(nn.Linear(64, 32, bias=False))).to(DEVICE)
    names, parameters = list(block.state_dict()), list(block.parameters())
    assert use_float8([("tower.0", block)]) == 2
    assert list(block.state_dict()) == names
    assert all(one is other for one, other in zip(block.parameters(), parameters, strict=True))
    assert isinstance(block[2][0], Float8Linear)
    assert use_float8([("tower.0", block)]) == 0  # they are exchanged already
    assert block[2][0](made(16, 64).to(block[0].weight.device)).shape == (16, 32)


def test_sizes_that_cannot_be_multiplied_are_named():
    with pytest.raises(UserError, match=r"multiples of 16, but tower\.0\.mlp maps 32 to 40"):
        use_float8([("tower.0", nn.ModuleDict({"mlp": nn.Linear(32, 40)}))])
