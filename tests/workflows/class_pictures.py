"""Class folders small enough for every test: a colour each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "dark_blue": (20, 20, 120)}
SMALL = (
    "preprocess.size=16", "tokens.vocabulary=600", "tokens.context=16", "image.width=16", "image.layers=1",
    "image.patch=8", "text.width=16", "text.layers=1", "space.dim=16", "training.batch_size=8", "training.device=cpu",
    "training.log_every=1", "training.checkpoint_every=0", "training.warmup_steps=0",
)  # fmt: skip


def write_class_folders(folder: Path, each: int = 12, size: int = 32) -> Path:
    random = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(each):
            pixels = np.clip(np.array(colour) + random.integers(-25, 25, (size, size, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder
