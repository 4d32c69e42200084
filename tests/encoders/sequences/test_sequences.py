"""Encoders over sequences: formulas read aloud, and that what is not real changes nothing."""

from __future__ import annotations

import math

import pytest
import torch

from equipoise.encoders.sequences import GRU, MLP, SEQUENCE_ENCODERS, SequenceShape, SequenceTransformer
from equipoise.encoders.sequences.positions import sinusoidal_positions
from equipoise.types import UserError

SHAPE = SequenceShape(width=5, length=7)
KINDS = [
    *(GRU.Config(hidden=6, readout=readout) for readout in ("flatten", "last", "mean")),
    GRU.Config(hidden=4, layers=2),
    SequenceTransformer.Config(width=8, layers=2, heads=2),
    MLP.Config(hidden=6, layers=3),
    MLP.Config(layers=1, normalise=True),
]


def built(config, shape=SHAPE, dim=3):
    torch.manual_seed(0)
    return config.build(shape, dim).eval()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Samples of 7, 4 and 1 real steps, one with a hole and one that begins late."""
    values = torch.randn(5, 7, 5, generator=torch.Generator().manual_seed(1))
    mask = torch.arange(7) < torch.tensor([7, 4, 1, 6, 7])[:, None]
    mask[3, 2], mask[4, :3] = False, False
    return values, mask


def test_every_name_builds_with_its_defaults():
    for option in SEQUENCE_ENCODERS.values():
        encoder = built(option() if isinstance(option, type) else option)
        assert encoder(*batch()).shape == (5, 3)
        assert encoder.width == 3


@pytest.mark.parametrize("config", KINDS, ids=str)
@pytest.mark.parametrize("rubbish", [1e6, float("nan"), float("inf")])
def test_what_stands_in_the_padding_changes_neither_code_nor_gradient(config, rubbish):
    encoder, (values, mask) = built(config), batch()
    found = []
    for given in (values, values.masked_fill(~mask[..., None], rubbish)):
        x = given.clone().requires_grad_()
        encoder.zero_grad()
        codes = encoder(x, mask)
        codes.square().sum().backward()
        assert x.grad[~mask].eq(0).all()
        found.append([codes, x.grad, *(p.grad.clone() for p in encoder.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_a_sample_alone_and_cut_has_the_code_it_has_in_a_padded_batch(config):
    encoder, (values, mask) = built(config).double(), batch()
    codes = encoder(values.double(), mask)
    for sample, length in enumerate((7, 4, 1)):
        alone = encoder(values[sample : sample + 1, :length].double())
        torch.testing.assert_close(alone[0], codes[sample], rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_a_sample_without_real_steps_has_one_finite_code(config):
    encoder, values = built(config), batch()[0]
    nothing = torch.zeros(5, 7, dtype=torch.bool)
    codes = encoder(values.requires_grad_(), nothing)
    codes.sum().backward()
    assert codes.isfinite().all()
    torch.testing.assert_close(codes, codes[:1].expand_as(codes), rtol=0, atol=1e-6)
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())
    empty = encoder(torch.zeros(2, 0, 5), torch.zeros(2, 0, dtype=torch.bool))
    torch.testing.assert_close(empty, codes[:2], rtol=0, atol=1e-6)


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_one_vector_is_a_sequence_of_one_step(config):
    encoder = built(config, SequenceShape(5))
    values = torch.randn(4, 5)
    torch.testing.assert_close(encoder(values), encoder(values[:, None], torch.ones(4, 1, dtype=torch.bool)))
    there = torch.tensor([True, False, True, False])
    torch.testing.assert_close(encoder(values, there), encoder(values, there[:, None]))
    assert not torch.allclose(encoder(values, there)[1], encoder(values)[1])


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_gradients_are_those_of_finite_differences(config):
    encoder, (values, mask) = built(config).double(), batch()
    assert torch.autograd.gradcheck(lambda x: encoder(x, mask[1:4]), values[1:4].double().requires_grad_())


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_half_precision_stays_near(config):
    encoder, (values, mask) = built(config), batch()
    exact = encoder(values, mask)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = encoder(values, mask)
    half = encoder.bfloat16()(values, mask)
    assert half.dtype == torch.bfloat16
    for found in (mixed.float(), half.float()):
        torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05)


def test_gru_read_aloud():
    """Cho et al. 2014, Eq. 5-8, in torch's convention for the gates; a step that is not real is skipped."""
    encoder, (values, mask) = built(GRU.Config(hidden=6)).double(), batch()
    gru, values = encoder.gru, values.double()
    w, u, b, c = gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0
    codes = encoder(values, mask)
    for sample in range(5):
        state, outputs = torch.zeros(6, dtype=torch.float64), []
        for step in range(7):
            if not mask[sample, step]:
                outputs.append(torch.zeros(6, dtype=torch.float64))
                continue
            from_input, from_state = (w @ values[sample, step] + b).split(6), (u @ state + c).split(6)
            reset, update = (torch.sigmoid(from_input[k] + from_state[k]) for k in (0, 1))
            state = (1 - update) * torch.tanh(from_input[2] + reset * from_state[2]) + update * state
            outputs.append(state)
        expected = encoder.out.weight @ torch.cat(outputs) + encoder.out.bias
        torch.testing.assert_close(codes[sample], expected, rtol=0, atol=1e-12)


def test_gru_reads_the_last_and_the_mean_of_real_steps():
    values, mask = batch()
    last, mean = (built(GRU.Config(hidden=6, readout=readout)) for readout in ("last", "mean"))
    states = last._states(values, mask)
    for sample, place in enumerate((6, 3, 0, 5, 6)):
        torch.testing.assert_close(last(values, mask)[sample], last.out(states[sample, place]))
    states = mean._states(values, mask)
    for sample in range(5):
        torch.testing.assert_close(mean(values, mask)[sample], mean.out(states[sample, mask[sample]].mean(0)))


def test_order_matters_to_the_transformer_and_not_to_the_mlp():
    values, mask = batch()
    swapped = values.clone()
    swapped[:, [0, 3]] = values[:, [3, 0]]
    whole = torch.ones_like(mask)
    transformer, mlp = (built(config) for config in (KINDS[4], KINDS[5]))
    assert not torch.allclose(transformer(values, whole), transformer(swapped, whole), atol=1e-4)
    torch.testing.assert_close(mlp(values, whole), mlp(swapped, whole))


def test_mlp_read_aloud():
    encoder, (values, mask) = built(MLP.Config(hidden=6, layers=2)).double(), batch()
    for sample, code in enumerate(encoder(values.double(), mask)):
        real = [values[sample, step].double() for step in range(7) if mask[sample, step]]
        x = sum(real) / len(real)
        first, second = encoder.maps
        hidden = (first.weight @ x + first.bias).clamp(min=0)
        torch.testing.assert_close(code, second.weight @ hidden + second.bias, rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [2, 6, 7])
def test_positions_read_aloud(width):
    found = sinusoidal_positions(4, width, torch.zeros((), dtype=torch.float64))
    half = width // 2
    for place in range(4):
        for k in range(half):
            angle = (place + 1) * math.exp(-k * math.log(10000) / max(1, half - 1))
            assert float(found[place, k]) == pytest.approx(math.sin(angle), abs=1e-12)
            assert float(found[place, half + k]) == pytest.approx(math.cos(angle), abs=1e-12)
    assert width % 2 == 0 or found[:, -1].eq(0).all()


@pytest.mark.parametrize(
    ("values", "mask", "sentence"),
    [
        (torch.zeros(2, 7, 4), None, r"\[N, L, 5\]"),
        (torch.zeros(2, 3, 7, 5), None, r"\[N, L, 5\]"),
        (torch.zeros(2, 7, 5, dtype=torch.long), None, "floats"),
        (torch.zeros(2, 8, 5), None, "8 steps, but the encoder was built for 7"),
        (torch.zeros(2, 7, 5), torch.ones(2, 6, dtype=torch.bool), r"mask must be bool \[2, 7\]"),
        (torch.zeros(2, 7, 5), torch.ones(2, 7), "mask must be bool"),
    ],
)
def test_other_shapes_are_refused(values, mask, sentence):
    with pytest.raises(UserError, match=sentence):
        built(KINDS[0])(values, mask)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (lambda: GRU.Config(readout="first"), "readout must be one of"),
        (lambda: MLP.Config(activation="sine"), "activation must be one of"),
        (lambda: SequenceTransformer.Config(width=6, heads=4).build(SHAPE, 3), "cannot be split into 4 heads"),
    ],
)
def test_impossible_settings_are_refused(config, sentence):
    with pytest.raises(UserError, match=sentence):
        config()
