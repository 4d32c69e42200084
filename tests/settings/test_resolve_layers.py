"""Resolving what several sources wrote: parents, the command line, other people's modules, and a stored table."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_run import ENCODERS, PRESETS, Encoder, Guided, Objective, OneHot, Smoothed, Toy

from equipoise.settings.choice import choice
from equipoise.settings.layers import LayeredTable, parse
from equipoise.settings.recipe import read_recipe
from equipoise.settings.resolve import resolve
from equipoise.settings.toml import dump
from equipoise.types import UserError


@pytest.fixture
def layered(tmp_path: Path) -> Callable[..., Any]:
    def layered(*texts: str, overrides: tuple[str, ...] = ()) -> Any:
        """The object that recipes describe, each extending the one before."""
        for number, text in enumerate(texts):
            parent = f'extends = "{number - 1}"\n' if number else ""
            (tmp_path / f"{number}.toml").write_text(parent + text)
        return resolve(Toy, read_recipe(tmp_path / f"{len(texts) - 1}.toml", overrides))[0]

    return layered


def test_another_choice_drops_the_keys_of_the_former(layered: Callable[..., Any]) -> None:
    parent = 'encoder = {name = "small", width = 8}\nobjective.target = {name = "smoothed", amount = 0.2}'
    assert layered(parent, 'encoder.name = "large"').encoder == Encoder.Config(512)
    assert layered(parent, 'encoder.name = "small"').encoder == Encoder.Config(8, None)
    assert layered(parent, "encoder.heads = [1]").encoder == Encoder.Config(8, None, (1,))
    assert layered(parent, 'encoder.name = "large"', 'encoder.name = "small"').encoder == Encoder.Config(32, None)
    assert layered(parent, 'objective.target = {name = "guided", size = 1}').objective.target == Guided(1)
    assert layered(parent, 'objective.name = "soft"').objective == Objective(2.0, Smoothed(0.3))


def test_naming_the_default_keeps_the_parents_keys(layered: Callable[..., Any]) -> None:
    assert layered("encoder.width = 8", 'encoder.name = "plain"').encoder == Encoder.Config(8)
    assert layered("encoder.width = 8", 'encoder.name = "large"').encoder == Encoder.Config(512)


def test_an_ordinary_name_is_not_a_choice(layered: Callable[..., Any]) -> None:
    toy = layered('name = "a"\nseed = 3', 'name = "b"')
    assert (toy.name, toy.seed) == ("b", 3)


def test_set_into_choices(layered: Callable[..., Any]) -> None:
    parent = 'objective.target = {name = "smoothed", amount = 0.2}'
    change = ("objective.target.size=4", "objective.target.name=guided")  # in either order
    assert layered(parent, overrides=change).objective.target == Guided(4)
    assert layered(parent, overrides=change[::-1]).objective.target == Guided(4)
    assert layered(parent, overrides=("objective.target.amount=0.9",)).objective.target == Smoothed(0.9)
    assert layered(parent, overrides=("objective.target={name='one_hot'}",)).objective.target == OneHot()


def test_errors_name_the_layer_that_is_to_blame(layered: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"0\.toml:1: unknown key \"sed\""):
        layered("sed = 1", "seed = 2")
    with pytest.raises(UserError, match=r"1\.toml:2: \"seed\" must be a whole number"):
        layered("seed = 1", "seed = 'x'")
    with pytest.raises(UserError, match=r"0\.toml:1: \"training\" must be a table"):
        layered("training = 3", "training.steps = 2")
    with pytest.raises(UserError, match=r'^--set training.stepz: unknown key "training.stepz".*"steps"'):
        layered("", overrides=("training.stepz=1",))
    with pytest.raises(UserError, match=r'^--set tranning.steps: unknown key "tranning".*"training"'):
        layered("", overrides=("tranning.steps=1",))
    with pytest.raises(
        UserError, match=r'^--set training.steps: "training.steps" must be a whole number, found "many"'
    ):
        layered("training.steps = 5", overrides=("training.steps=many",))


def test_a_component_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mylab_targets.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass Mine:\n    size: int = 1\n"
        "class Owner:\n    @dataclass(frozen=True)\n    class Config:\n        depth: int = 2\n"
        "preset = Mine(7)\nnumber = 3\n"
        "@dataclass\nclass Named:\n    name: str = ''\n"
        "@dataclass\nclass Foreign:\n    points: 'Tensor' = None\n"
        "@dataclass\nclass Made:\n    content: bytes = b''\n"
    )
    (tmp_path / "mylab_broken.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)

    def target(name: str, keys: str = "") -> tuple[Any, Any]:
        text = f'[objective.target]\nname = "{name}"\n{keys}'
        toy, full = resolve(Toy, LayeredTable((parse(text, "my.toml", trusted=True),)))
        return toy.objective.target, full["objective"]["target"]

    assert target("mylab_targets:Mine", "size = 4")[1] == {"name": "mylab_targets:Mine", "size": 4}
    assert target("mylab_targets:preset")[0].size == 7
    assert target("mylab_targets:Owner")[0].depth == 2
    assert target("mylab_targets:Owner.Config", "depth = 5")[0].depth == 5
    with pytest.raises(UserError, match=r'my\.toml:3: unknown key "objective.target.sise".*"size"'):
        target("mylab_targets:Mine", "sise = 4")
    for name, reason in [
        ("no_such_lab:Mine", "cannot import .* No module named"),
        ("mylab_targets:Mein", "cannot import .* has no attribute 'Mein'"),
        ("mylab_broken:Mine", "No module named 'no_such_package'"),
        ("mylab_targets:number", "is not a dataclass"),
        ("mylab_targets:Named", 'does not hold settings: it has a field "name"'),
        ("mylab_targets:Foreign", "does not hold settings: .*Tensor"),
        ("mylab_targets:Made", "does not hold settings: .*bytes"),
        (":Mine", "unknown choice"),
        ("mylab_targets:", "unknown choice"),
        (".relative:Mine", "unknown choice"),
    ]:
        with pytest.raises(UserError, match=rf"my\.toml:2: .*{reason}"):
            target(name)


@dataclass(frozen=True)
class Unlisted:
    size: int = 2


UNLISTED = Objective(4.0, Unlisted(5))


def test_a_preset_holding_a_component_that_is_not_listed_stores_its_full_name() -> None:
    name = f"{__name__}:UNLISTED"
    toy, full = resolve(Toy, LayeredTable((parse(f'objective.name = "{name}"', "my.toml", trusted=True),)))
    assert toy.objective == UNLISTED
    assert full["objective"]["target"] == {"name": f"{__name__}:Unlisted", "size": 5}
    assert resolve(Toy, LayeredTable((parse(dump(full), "stored"),))) == (toy, full)


@dataclass(frozen=True)
class Tower:
    encoder: Encoder.Config = choice(ENCODERS, "plain")


@dataclass(frozen=True)
class Towers:
    tower: Tower = choice({"tall": Tower(ENCODERS["large"]), "odd": Tower(Encoder.Config(5, None))}, "tall")


@pytest.mark.parametrize(("tower", "encoder"), [("tall", "large"), ("odd", "plain")])
def test_a_preset_inside_a_preset_keeps_its_name(tower: str, encoder: str) -> None:
    towers, full = resolve(Towers, LayeredTable((parse(f'tower.name = "{tower}"', "my.toml"),)))
    assert full["tower"]["encoder"]["name"] == encoder
    assert resolve(Towers, LayeredTable((parse(dump(full), "stored"),))) == (towers, full)


written = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        "seed": st.integers(0, 2**31 - 1),
        "training": st.fixed_dictionaries(
            {},
            optional={
                "steps": st.integers(1, 9),
                "note": st.just("n"),
                "later": st.fixed_dictionaries({}, optional={"warmup": st.integers(0, 9)}),
            },
        ),
        "encoder": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(sorted(ENCODERS)),
                "ratio": st.floats(-1e9, 1e9),
                "heads": st.lists(st.integers(0, 99), max_size=2),
            },
        ),
        "objective": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(sorted(PRESETS)),
                "target": st.one_of(
                    st.just({"name": "one_hot"}),
                    st.builds(lambda size: {"name": "guided", "size": size}, st.integers(0, 99)),
                    st.builds(lambda amount: {"name": "smoothed", "amount": amount}, st.floats(0, 0.5)),
                ),
            },
        ),
    },
)


@given(written)
@settings(max_examples=100, deadline=None)
def test_the_full_table_resolves_to_the_same_object(values: dict[str, Any]) -> None:
    toy, full = resolve(Toy, LayeredTable((parse(dump(values), "my.toml"),)))
    assert resolve(Toy, LayeredTable((parse(dump(full), "stored"),))) == (toy, full)
    assert tomllib.loads(dump(full)) == full
