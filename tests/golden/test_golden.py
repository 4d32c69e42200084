"""The package says and computes what was written down; see `record.py` for a change that is meant."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from golden import record


def stored(name: str) -> Any:
    return json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def test_every_recipe_resolves_as_before() -> None:
    assert record.shown() == stored("show.json")


def test_every_help_reads_as_before() -> None:
    golden = stored("help.json")
    if golden["python"] != list(sys.version_info[:2]):
        pytest.skip(f"argparse lays help out by Python's version; recorded with {golden['python']}")
    assert record.helped() == golden["help"]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", record.RECIPES)
def test_losses_are_those_of_before(recipe: str) -> None:
    assert record.losses(recipe) == pytest.approx(stored("losses.json")[recipe], rel=1e-4)


@pytest.mark.slow
def test_the_weights_of_a_short_demo_are_those_of_before_bit_for_bit() -> None:
    golden = stored("demo.json")
    if record.machine() not in golden:
        pytest.skip(f"no digest was recorded on {record.machine()}")
    assert record.demo_digest() == golden[record.machine()]
