"""Records by key: what a dict says."""

from __future__ import annotations

import pytest

from equipoise.data.files import key_table
from equipoise.data.files.key_table import KeyTable


@pytest.mark.parametrize("digest", [key_table._digest, len])  # `len`: many keys share a digest
def test_it_says_what_a_dict_says(digest, monkeypatch):
    monkeypatch.setattr(key_table, "_digest", digest)
    keys = [f"sub/{number}" for number in range(120)]
    table = KeyTable(keys.__getitem__, len(keys))
    assert [table[key] for key in keys] == [*range(120)]
    assert table.repeated() is None
    for strange in ("", "sub/120", "other"):
        with pytest.raises(KeyError):
            table[strange]
    twice = [*keys[:50], "sub/7", "sub/3", *keys[50:]]
    table = KeyTable(twice.__getitem__, len(twice))
    assert (table["sub/7"], table.repeated()) == (7, 50)


def test_nothing_has_no_keys():
    table = KeyTable([].__getitem__, 0)
    assert table.repeated() is None
    with pytest.raises(KeyError):
        table["a"]
