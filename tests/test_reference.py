"""The reference pages say what the code has: `python tools/reference.py` writes them anew."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_reference_is_as_the_code_is() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import reference
    finally:
        sys.path.remove(str(ROOT / "tools"))
    assert reference.stale() == []


def test_the_reference_has_every_table_and_name() -> None:
    keys = (ROOT / "docs" / "reference" / "recipe-keys.md").read_text(encoding="utf-8")
    assert all(f"`training.{key}`" in keys for key in ("steps", "batch_size", "learning_rate", "ema"))
    assert "| `objective.beta` | number | `0.3` |" in keys
    names = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert "## eq.contrast" in names
    assert "object at 0x" not in names


def test_every_key_is_told_in_words() -> None:
    """The remark behind its field is the last cell of its row; a class within another has remarks too."""
    keys = (ROOT / "docs" / "reference" / "recipe-keys.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split(" | ") for line in keys.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows if len(row) < 4 or not row[3].strip()] == []
    assert "| `data.max_things` | whole number | `4` | in a scene |" in keys
