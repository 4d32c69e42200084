"""An index of a model's points: made once, searched often, in a folder or in PostgreSQL."""

from __future__ import annotations

from equipoise.index.index import Found, Index, ModelNote, Record, require_same_model
from equipoise.index.open import open_index

__all__ = ["Found", "Index", "ModelNote", "Record", "open_index", "require_same_model"]
