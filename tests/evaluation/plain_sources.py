"""Scenes as files would hold them: pairs and pixels, without judgement; with or without labels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equipoise.data.scenes import Scenes
from equipoise.data.source import Pair


class Plain:
    def __init__(self, scenes: Scenes, label: bool = False):
        self.scenes, self.label = scenes, label

    def __len__(self) -> int:
        return len(self.scenes)

    def pair(self, index: int) -> Pair:
        pair = self.scenes.pair(index)
        return Pair(pair.key, pair.captions, pair.label if self.label else None)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return self.scenes.images(indices, size, device)


class Labelled(Plain):
    """With classes, and labels unless told otherwise."""

    def __init__(self, scenes: Scenes, label: bool = True):
        super().__init__(scenes, label)
        self.class_names, self.templates = scenes.class_names, ("a {}", "a red {}")
