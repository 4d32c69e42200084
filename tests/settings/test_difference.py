"""Telling two tables of settings apart."""

from __future__ import annotations

from equipoise.settings.difference import differences, told


def test_differences_have_full_names():
    old = {"seed": 0, "data": {"name": "scenes", "sizes": (1, 2)}, "training": {"ema": 0.5}}
    new = {"seed": 0, "data": {"name": "shards", "sizes": [1, 2], "path": "x"}, "training": {"ema": 0.5}}
    changes = differences(old, new)
    assert changes == {"data.name": ("scenes", "shards"), "data.path": (None, "x")}
    assert told(changes) == 'data.name is "scenes" there and "shards" here, data.path is absent there and "x" here'
    assert differences(old, old) == {}


def test_many_differences_stay_one_sentence():
    changes = differences({f"k{n}": 0 for n in range(10)}, {f"k{n}": 1 for n in range(10)})
    assert told(changes).endswith("k3 is 0 there and 1 here, and 6 more differ")
