from __future__ import annotations

from typing import Any

import pytest
from toy_run import Encoder, Guided, Objective, OneHot, Schedule, Smoothed, Toy, Training

from equipoise.settings.layers import LayeredTable, parse
from equipoise.settings.resolve import resolve
from equipoise.types import UserError


def read(text: str, cls: type[Any] = Toy) -> Any:
    return resolve(cls, LayeredTable((parse(text, "my.toml"),)))[0]


def refusal(text: str, cls: type[Any] = Toy) -> str:
    with pytest.raises(UserError) as error:
        read(text, cls)
    return str(error.value)


def test_nothing_written_is_all_defaults() -> None:
    toy, full = resolve(Toy, LayeredTable((parse("", "my.toml"),)))
    assert toy == Toy(encoder=Encoder.Config())
    assert full == {
        "name": "toy",
        "seed": 0,
        "training": {
            "steps": 100,
            "learning_rate": 1e-3,
            "compiled": False,
            "schedule": {"kind": "cosine", "warmup": 10},
            "first": {"kind": "flat", "warmup": 0},
        },
        "encoder": {"name": "plain", "width": 64, "ratio": 4.0, "heads": [2, 2]},
        "objective": {"name": "clip", "weight": 1.0, "target": {"name": "one_hot"}},
    }


def test_everything_written() -> None:
    toy = read("""
        name = "other"
        training = {steps = 5, learning_rate = 1, compiled = true, note = "n", later.warmup = 4, schedule.kind = "flat"}
        encoder = {name = "large", heads = [1], "ratio" = 2}
        [objective]
        target = {name = "guided", size = 3}
    """)
    assert toy.training == Training(5, 1.0, True, "n", Schedule("flat"), Schedule(warmup=4))
    assert isinstance(toy.training.learning_rate, float)
    assert toy.encoder == Encoder.Config(512, 2.0, (1,))
    assert toy.objective == Objective(1.0, Guided(3))


def test_presets_are_defaults() -> None:
    assert read('encoder.name = "small"').encoder == Encoder.Config(32, None)
    assert read('encoder = {name = "small", width = 16}').encoder == Encoder.Config(16, None)
    assert read('objective.name = "soft"').objective == Objective(2.0, Smoothed(0.3))
    soft_one_hot = read('objective = {name = "soft", target.name = "one_hot"}').objective
    assert soft_one_hot == Objective(2.0, OneHot())


def test_keys_go_into_the_preset_inside_a_preset() -> None:
    assert read('[objective]\nname = "own"\nweight = 5').objective == Objective(5.0, OneHot())
    named = read('[objective]\nname = "soft"\ntarget.name = "smoothed"').objective
    assert named == Objective(2.0, Smoothed(0.3))  # naming what the preset has anyway changes nothing
    assert read('[objective]\nname = "soft"\ntarget.amount = 0.2').objective == Objective(2.0, Smoothed(0.2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nsed = 1", 'my.toml:2: unknown key "sed"; did you mean "seed"?'),
        (
            "[training]\n\nlerning_rate = 1",
            'my.toml:3: unknown key "training.lerning_rate"; did you mean "learning_rate"?',
        ),
        ("[trainin.schedule]\nwarmup = 1", 'my.toml:1: unknown key "trainin"; did you mean "training"?'),
        (
            "[training]\nschedule.warm_up = 1",
            'my.toml:2: unknown key "training.schedule.warm_up"; did you mean "warmup"?',
        ),
        ('"training"."later".zzz = 1', 'my.toml:1: unknown key "training.later.zzz"; known here: kind, warmup'),
        ("[objective.target]\namount = 1", 'my.toml:2: unknown key "objective.target.amount"; nothing can be set here'),
        ("encoder = {widht = 1}", 'my.toml:1: unknown key "encoder.widht"; did you mean "width"?'),
        ("encoder.kinds = []", 'my.toml:1: unknown key "encoder.kinds"; known here: width, ratio, heads'),
        ("unwritable = 1", "my.toml:1: unknown key"),
        ('extends_ = "a"', "my.toml:1: unknown key"),
        ('training.schedule.name = "x"', 'my.toml:1: unknown key "training.schedule.name"'),
    ],
)
def test_unknown_keys(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('\nencoder.name = "smal"', 'my.toml:2: unknown choice "smal" for "encoder"; did you mean "small"?'),
        (
            '[objective]\ntarget.name = "zzz"',
            'my.toml:2: unknown choice "zzz" for "objective.target"; known here: one_hot,',
        ),
        ("encoder.name = 3", 'my.toml:1: "encoder.name" must be text, found 3'),
        (
            'encoder = "small"',
            'my.toml:1: "encoder" must be a table of keys, found "small"; to choose one write encoder.name',
        ),
        ("training = 3", 'my.toml:1: "training" must be a table of keys, found 3'),
        ("[[training]]\nsteps = 1", 'my.toml:1: "training" must be a table of keys, found [{steps = 1}]'),
    ],
)
def test_wrong_choices_and_tables(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nseed = 1.0", 'my.toml:2: "seed" must be a whole number, found 1.0'),
        ("seed = true", 'my.toml:1: "seed" must be a whole number, found true'),
        ('[training]\nsteps = "5"', 'my.toml:2: "training.steps" must be a whole number, found "5"'),
        ("training.steps.deep = 1", 'my.toml:1: "training.steps" must be a whole number, found a table'),
        ("training.compiled = 1", 'my.toml:1: "training.compiled" must be true or false, found 1'),
        ("name = 1979-05-27", 'my.toml:1: "name" must be text, found 1979-05-27'),
        (
            "encoder.heads = [1, 2.5]",
            'my.toml:1: "encoder.heads" must be a list, each item a whole number, found [1, 2.5]',
        ),
        (
            'training.schedule.kind = "linear"',
            'my.toml:1: "training.schedule.kind" must be one of "cosine", "flat", found',
        ),
        (
            f'training.steps = "{"x" * 100}"',
            f'my.toml:1: "training.steps" must be a whole number, found "{"x" * 56}...',
        ),
    ],
)
def test_wrong_types(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


def test_missing_keys() -> None:
    text = '\n[objective]\ntarget.name = "guided"'
    assert refusal(text) == 'my.toml:3: the key "objective.target.size" is missing; it has no default'
    assert refusal("", Guided) == 'my.toml: the key "size" is missing; it has no default'


def test_refused_values() -> None:
    assert refusal("[training]\nnote = 'x'\nsteps = 0") == "my.toml:3: training: steps must be at least 1"
    assert refusal("seed = 1\n[training]\nnote = 'x'\nlearning_rate = 13") == "my.toml:2: training: unlucky"
    text = '[objective.target]\nname = "smoothed"\namount = 2'
    assert refusal(text) == "my.toml:3: objective.target: amount must be in [0, 1), not 2.0"
    assert refusal("steps = 0", Training) == "my.toml:1: steps must be at least 1"
