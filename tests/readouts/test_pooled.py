"""Pooled tokens read aloud: the map of a code book, and no codes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from equipoise.readouts import CodeBookReadout, Pooled
from equipoise.spaces import Sphere
from equipoise.types import Features, UserError

W, D = 4, 3
CASES = [(pooling, projection) for pooling in ("max", "mean") for projection in ("two_layers", "one_layer")]


def made(pooling: str = "max", projection: str = "two_layers") -> Pooled:
    torch.manual_seed(0)
    return Pooled.Config(pooling=pooling, projection=projection).build(W, Sphere(D), "text").double()


def features(length: int = 5, seed: int = 1) -> Features:
    make = torch.Generator().manual_seed(seed)
    tokens = torch.randn(3, length, W, generator=make).double()
    return Features(tokens[:, :1], tokens, torch.arange(length) < torch.tensor([[1], [3], [length]]))


def aloud(readout: Pooled, tokens: Tensor, mask: Tensor) -> list[float]:
    """One sample, a number at a time."""
    vectors = []
    for token, real in zip(tokens, mask, strict=True):
        vector = token
        for layer in readout.projection:
            vector = layer(vector)
        if real:
            vectors.append(vector.tolist())
    if readout.config.pooling == "max":
        return [max(vector[i] for vector in vectors) for i in range(D)]
    return [sum(vector[i] for vector in vectors) / len(vectors) for i in range(D)]


@pytest.mark.parametrize(("pooling", "projection"), CASES)
def test_it_is_what_is_read_aloud(pooling, projection):
    readout, given = made(pooling, projection), features()
    found = readout(given)
    for row, tokens, mask in zip(found, given.tokens, given.mask, strict=True):
        assert row.tolist() == pytest.approx(aloud(readout, tokens, mask), abs=1e-12)
    padded = Features(given.classes, torch.cat([given.tokens, torch.full((3, 2, W), 1e6).double()], 1),
                      torch.cat([given.mask, torch.zeros(3, 2, dtype=torch.bool)], 1))  # fmt: skip
    torch.testing.assert_close(readout(padded), found, rtol=0, atol=1e-12)
    torch.testing.assert_close(readout(Features(given.classes, given.tokens))[2], found[2])


@pytest.mark.parametrize(("pooling", "projection"), CASES)
def test_gradients_are_those_of_finite_differences(pooling, projection):
    readout, given = made(pooling, projection), features()
    tokens = given.tokens.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: readout(Features(given.classes, x, given.mask)), (tokens,))


@pytest.mark.parametrize("projection", ["two_layers", "one_layer"])
def test_its_map_is_the_code_books(projection):
    torch.manual_seed(0)
    book = CodeBookReadout.Config(codes=5, projection=projection).build(W, Sphere(D), "text")
    state = made(projection=projection).float().projection.state_dict()
    assert state.keys() == book.projection.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in book.projection.state_dict().items())


def test_nonsense_is_refused():
    for settings in ({"pooling": "sum"}, {"projection": "three_layers"}):
        with pytest.raises(UserError, match="must be one of"):
            Pooled.Config(**settings)
    given = features()
    with pytest.raises(UserError, match="no tokens but padding"):
        made()(Features(given.classes, given.tokens, torch.zeros(3, 5, dtype=torch.bool)))
    with pytest.raises(UserError, match="class tokens alone"):
        made()(Features(given.classes))
