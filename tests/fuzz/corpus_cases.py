"""Cases that once failed: files of corpus/, each of named cases; known.json lists those that still fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CORPUS, KNOWN = Path(__file__).parent / "corpus", Path(__file__).parent / "known.json"


def kept_cases() -> dict[str, dict[str, Any]]:
    """All of them, by their names."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(CORPUS.glob("*.json")):
        for name, case in json.loads(path.read_text(encoding="utf-8")).items():
            found[f"{path.stem}/{name}"] = case
    return found


def known() -> dict[str, str]:
    """Names of kept cases that are known to fail, and how."""
    listed: dict[str, str] = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.is_file() else {}
    return listed
