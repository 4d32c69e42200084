from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from equipoise.config import Run, builtin_recipes, dump, load_run, load_stored
from equipoise.types import UserError


def test_an_empty_recipe_is_the_default_run(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("")
    assert load_run(recipe).run == Run()
    changed = load_run(recipe, ["seed=3", "name=other"])
    assert (changed.run.seed, changed.run.name) == (3, "other")
    assert (changed.table["seed"], changed.table["name"]) == (3, "other")


def test_a_stored_run_comes_back(tmp_path: Path) -> None:
    recipe, stored = tmp_path / "mine.toml", tmp_path / "config.toml"
    recipe.write_text('name = "mine"\nseed = 7\n')
    loaded = load_run(recipe)
    stored.write_text(dump(loaded.table))
    assert load_stored(stored) == loaded
    assert load_stored(stored, ["seed=8"]).run == replace(loaded.run, seed=8)


def test_a_wrong_key_is_one_sentence(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('# header\nname = "mine"\nsede = 7\n')
    with pytest.raises(UserError) as error:
        load_run(recipe)
    assert str(error.value) == f'{recipe}:3: unknown key "sede"; did you mean "seed"?'


@pytest.mark.parametrize(
    "name",  # tests/golden resolves all of them in the quick tests
    [pytest.param(name, marks=[pytest.mark.slow] * bool(n % 8)) for n, name in enumerate(builtin_recipes())],
)
def test_every_built_in_recipe_loads_and_has_a_header(name: str, tmp_path: Path) -> None:
    loaded = load_run(name)
    stored = tmp_path / "config.toml"
    stored.write_text(dump(loaded.table))
    assert load_stored(stored) == loaded
    assert builtin_recipes()[name]
