"""Detectors exported to a file: TorchScript (.pt, .ts), a torch.export program (.pt2) or ONNX (.onnx).

It sees one RGB picture at a time, float32 in [0, 1], as torchvision's detectors do: [3, H, W], or [1, 3, H, W] where
its input has four axes; one of fixed size gets pictures of that size. It returns boxes [R, 4] in pixels, labels [R],
scores [R] and optionally features [R, w]: as a dictionary, a list of one, outputs of these names (ONNX), or in this
order. TorchScript is called with a list of pictures, as torchvision's scripted detectors are.

A file runs its own program: give only files you trust (`model_files.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.data.source import Pair
from equipoise.detection.detector import DetectedRegions, relative_boxes
from equipoise.detection.model_files import READERS, Program, Size
from equipoise.types import UserError


@dataclass(frozen=True)
class ExternalDetector:
    """A detector whose program is in a file."""

    path: Path
    program: Program
    size: Size = None
    names: tuple[str, ...] = ()  # of classes, by number
    longest: int = 640

    def __call__(self, images: Sequence[Tensor], pairs: Sequence[Pair]) -> list[DetectedRegions]:
        return [self._regions(image) for image in images]

    def _regions(self, image: Tensor) -> DetectedRegions:
        pixels = image.float().div(255)
        if self.size:
            pixels = F.interpolate(pixels[None], self.size, mode="bilinear", antialias=True)[0]
        with torch.no_grad():
            answer = self.program(pixels)
        if missing := [name for name in ("boxes", "scores") if name not in answer]:
            raise UserError(f"{self.path}: the detector gives no {' and no '.join(missing)}; export it with them")
        values = {name: _alone(value, 2 if name in ("boxes", "features") else 1) for name, value in answer.items()}
        boxes, scores = relative_boxes(
            values["boxes"], values["scores"], (pixels.shape[1], pixels.shape[2]), str(self.path)
        )
        features = values.get("features")
        if features is not None and (features.ndim != 2 or len(features) != len(boxes)):
            raise UserError(f"{self.path}: features of a picture must be [R, w], not {list(features.shape)}")
        return DetectedRegions(boxes, scores, self._labels(values.get("labels"), len(boxes)), features)

    def _labels(self, numbers: Tensor | None, count: int) -> tuple[str, ...]:
        if numbers is None or not self.names:
            return ()
        known = numbers.long().tolist()
        if len(known) != count or any(not 0 <= number < len(self.names) for number in known):
            raise UserError(f"{self.path}: it gives labels {known[:5]}..., but there are {len(self.names)} names")
        return tuple(self.names[number] for number in known)


def open_detector(path: Path, names: Sequence[str] = ()) -> ExternalDetector:
    """Open a detector's file; `names` are its classes by number."""
    if path.suffix not in READERS:
        raise UserError(f"{path}: a detector is salient, given, or a file ending in {', '.join(READERS)}; give one")
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; give a detector's file, or --detector salient")
    program, size = READERS[path.suffix](path)
    return ExternalDetector(path, program, size, tuple(names))


def _alone(value: Tensor, axes: int) -> Tensor:
    """`value` without the axis of a batch of one."""
    return value[0] if value.ndim == axes + 1 and len(value) == 1 else value
