"""Any `--set` whatever is resolved or told in a sentence: drawn by hypothesis, which also shrinks what it finds."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.config import dump, load_run
from equipoise.types import UserError

TABLE = load_run("demo").table


def names(table: dict, before: str = "") -> list[str]:
    inner = [
        name for key, value in table.items() if isinstance(value, dict) for name in names(value, f"{before}{key}.")
    ]
    return [*(before + key for key in table), *inner]


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
)
words = st.builds(lambda key, value: f"{key}={json.dumps(value)}", st.sampled_from(names(TABLE)), values)
anything = st.text(max_size=30) | words


@settings(max_examples=150)
@given(st.lists(anything, min_size=1, max_size=2))
def test_any_setting_is_resolved_or_told_in_a_sentence(overrides):
    try:
        said = dump(load_run("demo", overrides).table)
    except UserError as error:
        said = str(error)
    assert said
    assert "object at 0x" not in said
