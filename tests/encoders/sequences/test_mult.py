"""MulT against an implementation of its own in plain loops, with the same weights; joint encoders of any subset."""

from __future__ import annotations

import math

import pytest
import torch

from equipoise.encoders.sequences import JOINT_ENCODERS, Concat, MulT, SequenceShape
from equipoise.types import UserError

SHAPES = {"text": SequenceShape(4, 5), "audio": SequenceShape(3, 3), "video": SequenceShape(2, 6)}
SMALL = MulT.Config(width=4, layers=2, heads=2)
JOINT = [SMALL, Concat.Config(hidden=6, layers=3)]


def built(config=SMALL, shapes=SHAPES, dim=3):
    torch.manual_seed(0)
    encoder = config.build(shapes, dim).double().eval()
    for parameter in encoder.parameters():  # norms and biases, too, that start as if they were not there
        torch.nn.init.normal_(parameter, std=0.4)
    return encoder


def given(n: int = 3, seed: int = 1, shapes=SHAPES) -> dict:
    """All steps real, or some at the end not."""
    draw = torch.Generator().manual_seed(seed)
    found = {}
    for number, (name, shape) in enumerate(shapes.items()):
        values = torch.randn(n, shape.length, shape.width, generator=draw).double()
        lengths = torch.tensor([shape.length, 1 + number % 2, shape.length - 1, *[shape.length] * (n - 3)][:n])
        found[name] = values, torch.arange(shape.length) < lengths[:, None]
    return found


# The paper and its code: one sample, one step, one head at a time


def norm_aloud(layer, x):
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    return [
        (v - mean) / math.sqrt(variance + 1e-5) * w + b
        for v, w, b in zip(x, layer.weight.tolist(), layer.bias.tolist(), strict=True)
    ]


def linear_aloud(weight, bias, x):
    rows = [sum(w * v for w, v in zip(row, x, strict=True)) for row in weight.tolist()]
    return rows if bias is None else [r + b for r, b in zip(rows, bias.tolist(), strict=True)]


def embedded_aloud(steps):
    width = len(steps[0])
    half, found = width // 2, []
    for t, x in enumerate(steps, 1):
        angles = [t * math.exp(-k * math.log(10000) / max(1, half - 1)) for k in range(half)]
        position = [*map(math.sin, angles), *map(math.cos, angles), *[0.0] * (width % 2)]
        found.append([math.sqrt(width) * v + p for v, p in zip(x, position, strict=True)])
    return found


def attention_aloud(layer, queries, others, future):
    width = len(queries[0])
    weights, biases = layer.qkv.weight.split(width), layer.qkv.bias.split(width)
    q, k, v = (
        [linear_aloud(weights[i], biases[i], x) for x in steps] for i, steps in enumerate((queries, others, others))
    )
    each, ahead, out = width // layer.heads, abs(len(others) - len(queries)), []
    for i in range(len(q)):
        joined = []
        for head in range(layer.heads):
            part = range(head * each, (head + 1) * each)
            seen = [j for j in range(len(k)) if not future or j <= i + ahead]
            scores = [math.exp(sum(q[i][d] * k[j][d] for d in part) / math.sqrt(each)) for j in seen]
            joined += [sum(s * v[j][d] for s, j in zip(scores, seen, strict=True)) / sum(scores) for d in part]
        out.append(linear_aloud(layer.out.weight, layer.out.bias, joined))
    return out


def added(x, y):
    return [[a + b for a, b in zip(one, other, strict=True)] for one, other in zip(x, y, strict=True)]


def transformer_aloud(module, steps, others=None):
    x, z = embedded_aloud(steps), None if others is None else embedded_aloud(others)
    for layer in module.layers:
        normed = [norm_aloud(layer.ln_0, step) for step in x]
        asked = normed if z is None else [norm_aloud(layer.ln_0, step) for step in z]
        x = added(x, attention_aloud(layer.attention, normed, asked, module.future))
        inner = [
            [max(0.0, v) for v in linear_aloud(layer.mlp_in.weight, layer.mlp_in.bias, norm_aloud(layer.ln_1, step))]
            for step in x
        ]
        x = added(x, [linear_aloud(layer.mlp_out.weight, layer.mlp_out.bias, step) for step in inner])
    return [norm_aloud(module.ln_final, step) for step in x]


def mult_aloud(encoder, sample):
    """The code of one sample: {name: its real steps}."""
    low = {
        name: [linear_aloud(encoder.maps[f"of_{name}"].weight, None, step) for step in steps]
        for name, steps in sample.items()
    }
    last = []
    for name, own in low.items():
        found = [
            transformer_aloud(encoder.cross[f"to_{name}"][f"from_{other}"], own, steps)
            for other, steps in low.items()
            if other != name
        ]
        joined = [[v for part in found for v in part[t]] for t in range(len(own))]
        last += transformer_aloud(encoder.memories[f"of_{name}"], joined)[-1]
    head = encoder.head
    hidden = [max(0.0, v) for v in linear_aloud(head.inner.weight, head.inner.bias, last)]
    outer = linear_aloud(head.outer.weight, head.outer.bias, hidden)
    return linear_aloud(head.out.weight, head.out.bias, [a + b for a, b in zip(last, outer, strict=True)])


@pytest.mark.parametrize("future", [True, False])
def test_mult_read_aloud(future):
    encoder, batch = built(MulT.Config(width=4, layers=2, heads=2, future=future)), given()
    codes = encoder(batch)
    for sample in range(3):
        steps = {name: values[sample][mask[sample]].tolist() for name, (values, mask) in batch.items()}
        expected = torch.tensor(mult_aloud(encoder, steps), dtype=torch.float64)
        torch.testing.assert_close(codes[sample], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("names", [("text", "video"), ("text", "audio", "video")])
def test_any_number_of_modalities_read_aloud(names):
    shapes = {name: SHAPES[name] for name in names} | {"touch": SequenceShape(1, 2)}
    encoder, batch = built(MulT.Config(width=2, layers=1, heads=1), shapes), given(1, shapes=shapes)
    steps = {name: values[0].tolist() for name, (values, _) in batch.items()}
    expected = torch.tensor(mult_aloud(encoder, steps), dtype=torch.float64)
    torch.testing.assert_close(encoder(batch)[0], expected, rtol=0, atol=1e-10)


def test_mult_has_the_published_sizes():
    shapes = {"text": SequenceShape(300, 50), "audio": SequenceShape(74, 50), "video": SequenceShape(35, 50)}
    encoder = MulT.Config().build(shapes, 60)
    crossing = [part for to in encoder.cross.values() for part in to.values()]
    assert len(crossing) == 6
    assert [len(part.layers) for part in (*crossing, *encoder.memories.values())] == [5] * 9
    assert encoder.head.out.in_features == 180
    assert encoder.head.out.out_features == 60
    assert [len(MulT.Config(layers=2).build(shapes, 6).memories["of_text"].layers)] == [3]
    assert all(
        weight.shape == (30, shapes[name[3:]].width) for name, m in encoder.maps.items() for weight in [m.weight]
    )
    dropped = {
        (to, other): part.layers[0].attention.dropout for to, of in encoder.cross.items() for other, part in of.items()
    }
    assert all(dropout == (0.1 if other == "from_text" else 0.0) for (_, other), dropout in dropped.items())
    assert {part.layers[0].attention.dropout for part in encoder.memories.values()} == {0.1}


def test_dropout_is_drawn_in_training_alone():
    encoder, batch = built(), given()
    torch.testing.assert_close(encoder(batch), encoder(batch), rtol=0, atol=0)
    encoder.train()
    assert not torch.equal(encoder(batch), encoder(batch))


@pytest.mark.parametrize("config", JOINT, ids=["mult", "concat"])
@pytest.mark.parametrize("rubbish", [1e6, float("nan")])
def test_padding_changes_neither_code_nor_gradient(config, rubbish):
    encoder, found = built(config), []
    for spoiled in (False, True):
        batch = given()
        if spoiled:
            batch = {name: (v.masked_fill(~mask[..., None], rubbish), mask) for name, (v, mask) in batch.items()}
        encoder.zero_grad()
        codes = encoder(batch)
        codes.square().sum().backward()
        found.append([codes, *(p.grad.clone() for p in encoder.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    batch = given()
    for sample in range(3):  # alone, and cut to what is real
        alone = {name: (v[sample : sample + 1, mask[sample]], None) for name, (v, mask) in batch.items()}
        torch.testing.assert_close(encoder(alone)[0], codes[sample], rtol=0, atol=1e-10)


@pytest.mark.parametrize("config", JOINT, ids=["mult", "concat"])
def test_subsets_are_samples_that_lack_a_modality(config):
    encoder, batch = built(config), given()
    for names in (("text",), ("audio", "video"), ("video", "text")):
        part = encoder({name: batch[name] for name in names})
        nothing = {
            name: (values, mask if name in names else torch.zeros_like(mask)) for name, (values, mask) in batch.items()
        }
        assert part.isfinite().all()
        torch.testing.assert_close(part, encoder(nothing), rtol=0, atol=1e-12)
        assert not torch.allclose(part, encoder(batch), atol=1e-3)
    mixed = {name: (values, mask.clone()) for name, (values, mask) in batch.items()}
    mixed["audio"][1][1] = False
    codes, without = encoder(mixed), encoder({name: batch[name] for name in ("text", "video")})
    torch.testing.assert_close(codes[1], without[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(codes[0], encoder(batch)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", JOINT, ids=["mult", "concat"])
def test_a_sample_without_any_modality_has_one_finite_code(config):
    encoder, batch = built(config), given()
    nothing = {name: (values.requires_grad_(), torch.zeros_like(mask)) for name, (values, mask) in batch.items()}
    codes = encoder(nothing)
    codes.sum().backward()
    torch.testing.assert_close(codes, codes[:1].expand_as(codes), rtol=0, atol=1e-12)
    assert codes.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


@pytest.mark.parametrize("config", JOINT, ids=["mult", "concat"])
def test_gradients_are_those_of_finite_differences(config):
    encoder, batch = built(config), given(2)

    def of(*values):
        return encoder({name: (v, batch[name][1]) for name, v in zip(SHAPES, values, strict=True)})

    leaves = [values.requires_grad_() for values, _ in batch.values()]
    assert torch.autograd.gradcheck(of, leaves, fast_mode=True)


@pytest.mark.parametrize("option", JOINT_ENCODERS.values(), ids=JOINT_ENCODERS)
def test_half_precision_stays_near_and_every_name_builds(option):
    torch.manual_seed(0)
    encoder = (option() if isinstance(option, type) else option).build(SHAPES, 3).eval()
    batch = {name: (values.float(), mask) for name, (values, mask) in given().items()}
    exact = encoder(batch)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = encoder(batch)
    for found in (mixed, encoder.bfloat16()(batch)):
        torch.testing.assert_close(found.float(), exact, rtol=0.1, atol=0.1)


def test_names_that_modules_have_themselves_are_no_trouble():
    shapes = {"keys": SequenceShape(2), "type": SequenceShape(2), "forward": SequenceShape(2)}
    assert built(shapes=shapes)({name: (torch.zeros(2, 2).double(), None) for name in shapes}).shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda e, b: e({"smell": b["text"]}), "no modality 'smell'; the encoder reads text, audio, video"),
        (lambda e, b: e({}), "no modality is given"),
        (lambda e, b: e(b | {"audio": (b["audio"][0][:2], None)}), "different numbers of samples"),
        (lambda e, b: e({"text": b["audio"]}), r"values of text must be floats \[N, L, 4\]"),
        (lambda e, b: built(shapes={"text": SHAPES["text"]}), "two modalities at least"),
        (lambda e, b: built(shapes={"a.b": SHAPES["text"], "c": SHAPES["text"]}), "may not be called 'a.b'"),
        (lambda e, b: MulT.Config(width=30, heads=4), "cannot be split into 4 heads"),
    ],
)
def test_impossible_inputs_are_refused(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call(built(), given())
