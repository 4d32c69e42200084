"""Features of regions: w numbers of appearance, then the 4 of the box.

the detector's own     any width, 2048 for the detectors of the paper
pixels                 the box averaged down to 8 × 8, 192 numbers, as for scenes
a model                its points of the boxes, each cropped and encoded as an image
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor

from equipoise.data.scenes.detector import appearance
from equipoise.detection.detector import DetectedRegions
from equipoise.models.model import Model

Describe = Callable[[Tensor, Tensor], Tensor]  # a picture uint8 [3, H, W] and boxes [R, 4] in [0, 1] -> [R, w]


def region_features(image: Tensor, found: DetectedRegions, describe: Describe) -> Tensor:
    """Features [R, w + 4] of regions; their appearance is the detector's own where it returns any."""
    appearances = describe(image, found.boxes) if found.features is None else found.features.float()
    return torch.cat([appearances, found.boxes], dim=1)


def pixels(image: Tensor, boxes: Tensor) -> Tensor:
    """Appearance of regions [R, 192]: their pixels averaged down to 8 × 8."""
    corners = [tuple(box) for box in boxes.tolist()]
    return appearance(image[None], [corners], len(corners))[0][0, :, :-4]


@dataclass(frozen=True)
class ModelFeatures:
    """Appearance of regions as a model's points of their crops."""

    model: Model

    def __call__(self, image: Tensor, boxes: Tensor) -> Tensor:
        with torch.no_grad():
            return self.model.encode_image(cut_out(image, boxes)).float().cpu()


def cut_out(image: Tensor, boxes: Tensor) -> list[Image.Image]:
    """Crops of the boxes, of at least one pixel each."""
    whole = Image.fromarray(image.permute(1, 2, 0).numpy())
    scale = torch.tensor([whole.width, whole.height, whole.width, whole.height])
    cuts = []
    for x0, y0, x1, y1 in (boxes * scale).round().int().tolist():
        left, top = min(x0, whole.width - 1), min(y0, whole.height - 1)
        cuts.append(whole.crop((left, top, max(x1, left + 1), max(y1, top + 1))))
    return cuts
