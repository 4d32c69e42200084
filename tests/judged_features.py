"""Features of which two texts in five are wrong, by which judges know something after a second of training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

IMAGES, WIDTH = 200, 16


def noisy_features(folder: Path) -> list[str]:
    """The words for a run of the recipe `features` on 200 images, whose file is written to `folder`."""
    return noisy_words(features_file(folder / "f.npz", IMAGES))


def features_file(path: Path, images: int) -> Path:
    """So many images of two texts each."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(images, 1, WIDTH))
    texts = shared + rng.normal(size=(images, 2, WIDTH)) / 4
    pictures = (shared[:, 0] + rng.normal(size=(images, WIDTH)) / 4) @ rng.normal(size=(WIDTH, WIDTH))
    np.savez(path, image=pictures.astype(np.float32), text=texts.astype(np.float32))
    return path


def noisy_words(path: Path, **changes: object) -> list[str]:
    """The words that make a recipe of these features with wrong pairs."""
    settings = {
        **dict.fromkeys(("data.train", "data.validation", "data.test"), str(path)),
        **dict.fromkeys(("image.width", "text.width", "space.dim"), WIDTH),
        **dict.fromkeys(("image.dropout", "text.dropout"), 0.0),
        "shuffle.share": 0.4,
        "training.steps": 125,
        "training.batch_size": 40,
        "training.warmup_steps": 5,
        "training.learning_rate": 0.02,
        "training.evaluate_every": 25,
        "training.checkpoint_every": 10,
        "training.log_every": 25,
        **changes,
    }
    return words(settings)


def words(settings: dict[str, object]) -> list[str]:
    """Settings as the command line takes them."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
