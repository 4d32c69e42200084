"""Scenes that were put together for a purpose, as a source: each with a key and one caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.data.scenes.annotation import scene_graph
from equipoise.data.scenes.rendering.render import render
from equipoise.data.scenes.scene import Scene
from equipoise.data.source import Pair


@dataclass(frozen=True)
class Gallery:
    scenes: tuple[Scene, ...]
    keys: tuple[str, ...]
    captions: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scenes)

    def pair(self, index: int) -> Pair:
        return Pair(self.keys[index], (self.captions[index],), truth={"scene": scene_graph(self.scenes[index])})

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return render([self.scenes[index] for index in indices], size, device)
