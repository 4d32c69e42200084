"""A detector in a file: TorchScript (.pt, .ts), a torch.export program (.pt2) or ONNX (.onnx).

It sees one RGB picture at a time, float32 in [0, 1], as torchvision's detectors do: [3, H, W], or [1, 3, H, W] where
its input has four axes; one of fixed size gets pictures of that size. It answers boxes [R, 4] in pixels, labels [R],
scores [R] and, if it likes, features [R, w]: as a dictionary, a list of one, outputs of these names (ONNX), or in this
order. TorchScript is called with a list of pictures, as torchvision's scripted detectors are.

A file runs its own program: give only files you trust. A pickled model (torch.save) is never opened, for that would run
any Python it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.data.source import Pair
from equipoise.detection.detector import Found, checked
from equipoise.types import UserError

NAMES = ("boxes", "labels", "scores", "features")
Answer = Mapping[str, Tensor]
Program = Callable[[Tensor], Answer]  # one picture [3, H, W]
Size = tuple[int, int] | None  # height and width, where they are fixed


@dataclass(frozen=True)
class Exported:
    path: Path
    program: Program
    size: Size = None
    names: tuple[str, ...] = ()  # of classes, by number
    longest: int = 640

    def __call__(self, images: Sequence[Tensor], pairs: Sequence[Pair]) -> list[Found]:
        return [self._look(image) for image in images]

    def _look(self, image: Tensor) -> Found:
        given = image.float().div(255)
        if self.size:
            given = F.interpolate(given[None], self.size, mode="bilinear", antialias=True)[0]
        with torch.no_grad():
            answer = self.program(given)
        if missing := [name for name in ("boxes", "scores") if name not in answer]:
            raise UserError(f"{self.path}: the detector gives no {' and no '.join(missing)}; export it with them")
        values = {name: _alone(value, 2 if name in ("boxes", "features") else 1) for name, value in answer.items()}
        boxes, scores = checked(values["boxes"], values["scores"], (given.shape[1], given.shape[2]), str(self.path))
        features = values.get("features")
        if features is not None and (features.ndim != 2 or len(features) != len(boxes)):
            raise UserError(f"{self.path}: features of a picture must be [R, w], not {list(features.shape)}")
        return Found(boxes, scores, self._labels(values.get("labels"), len(boxes)), features)

    def _labels(self, numbers: Tensor | None, count: int) -> tuple[str, ...]:
        if numbers is None or not self.names:
            return ()
        known = numbers.long().tolist()
        if len(known) != count or any(not 0 <= number < len(self.names) for number in known):
            raise UserError(f"{self.path}: it gives labels {known[:5]}..., but there are {len(self.names)} names")
        return tuple(self.names[number] for number in known)


def open_detector(path: Path, names: Sequence[str] = ()) -> Exported:
    if path.suffix not in READERS:
        raise UserError(f"{path}: a detector is a file ending in {', '.join(READERS)}; export it as one of these")
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; give a detector's file, or --detector salient")
    program, size = READERS[path.suffix](path)
    return Exported(path, program, size, tuple(names))


def _torchscript(path: Path) -> tuple[Program, Size]:
    try:
        module = torch.jit.load(str(path), map_location="cpu").eval()
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"{path}: this is no TorchScript ({_first_line(error)}); a pickled model is not opened, for that would run "
            "its code: export it with torch.jit.script(model).save(...)"
        ) from None
    return lambda image: _named(module([image]), path), None


def _exported(path: Path) -> tuple[Program, Size]:
    try:
        program = torch.export.load(path)
    except Exception as error:  # a zip file, JSON and weights, each with errors of its own
        raise UserError(f"{path}: this is no torch.export program ({_first_line(error)}); export it anew") from None
    inputs = [node.meta["val"] for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    shape = list(inputs[0].shape)
    module = program.module()
    return lambda image: _named(module(image if len(shape) == 3 else image[None]), path), _fixed(shape)


def _onnx(path: Path) -> tuple[Program, Size]:
    try:
        import onnxruntime
    except ImportError as error:
        raise UserError(f"{path}: this needs onnxruntime; install it with: pip install 'equipoise[onnx]'") from error
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class of its own for each fault
        raise UserError(f"{path}: this is no ONNX model ({_first_line(error)}); export it anew") from None
    entry, outputs = session.get_inputs()[0], [output.name for output in session.get_outputs()]

    def run(image: Tensor) -> Answer:
        given = image if len(entry.shape) == 3 else image[None]
        values = [torch.from_numpy(value) for value in session.run(None, {entry.name: given.numpy()})]
        by_name = dict(zip(outputs, values, strict=True))
        return by_name if "boxes" in by_name else _named(tuple(values), path)

    return run, _fixed(entry.shape)


def _named(answer: Any, path: Path) -> Answer:
    """Torchvision's ways to answer, as one: (losses, [{...}]), [{...}], {...} or values in order."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], list):
        answer = answer[1]
    if isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], Mapping):
        answer = answer[0]
    if isinstance(answer, Mapping):
        return {name: value for name, value in answer.items() if name in NAMES}
    if isinstance(answer, (tuple, list)) and 3 <= len(answer) <= 4:
        return dict(zip(NAMES, answer, strict=False))
    raise UserError(f"{path}: the detector answers neither a dictionary nor {', '.join(NAMES)} in order; export it so")


def _alone(value: Tensor, axes: int) -> Tensor:
    """Without the axis of a batch of one."""
    return value[0] if value.ndim == axes + 1 and len(value) == 1 else value


def _fixed(shape: Sequence[object]) -> Size:
    height, width = shape[-2:]
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:100]


READERS: dict[str, Callable[[Path], tuple[Program, Size]]] = {
    ".pt": _torchscript,
    ".ts": _torchscript,
    ".pt2": _exported,
    ".onnx": _onnx,
}
