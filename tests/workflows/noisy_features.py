"""Features of 200 images of two texts each, of which 40% have the texts of others; a judge of them takes a second."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

IMAGES, WIDTH = 200, 16


def words(settings: dict[str, object]) -> list[str]:
    """Settings as the command line takes them."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def noisy_features(folder: Path) -> list[str]:
    """The words for a run of the recipe `features` on such data, whose file is written to `folder`."""
    file = folder / "f.npz"
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(IMAGES, 1, WIDTH))
    texts = shared + rng.normal(size=(IMAGES, 2, WIDTH)) / 4
    images = (shared[:, 0] + rng.normal(size=(IMAGES, WIDTH)) / 4) @ rng.normal(size=(WIDTH, WIDTH))
    np.savez(file, image=images.astype(np.float32), text=texts.astype(np.float32))
    return words(
        {
            **dict.fromkeys(("data.train", "data.validation", "data.test"), str(file)),
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
        }
    )
