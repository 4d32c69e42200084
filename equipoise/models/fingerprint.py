"""A model's fingerprint: the same for the same files, whatever their folder is called; another for another model."""

from __future__ import annotations

import hashlib
from pathlib import Path

from equipoise.io.digests import file_digest
from equipoise.models.folder import MODEL_FILES, model_folder

DIGITS = 16


def fingerprint(path: Path) -> str:
    """Of the files that make the model of a folder: settings, tokenizer, preprocessing and weights."""
    folder = model_folder(path)
    found = {name: file_digest(folder / name) for name in MODEL_FILES if (folder / name).is_file()}
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(found.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
