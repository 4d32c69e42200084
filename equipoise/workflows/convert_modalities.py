"""`equipoise data convert`: a published pickle of modalities as files that can be trained on."""

from __future__ import annotations

from pathlib import Path

from equipoise.data.modalities.published import convert_pickle
from equipoise.io.numbers import hand_over


def convert_modalities(path: Path, folder: Path) -> None:
    sizes = convert_pickle(path, folder)
    told = ", ".join(f"{count:,} {split}" for split, count in sizes.items())
    print(f"{folder} holds {told} samples; train on them with --set data.root={folder}")
    hand_over({"folder": str(folder), "samples": sizes})
