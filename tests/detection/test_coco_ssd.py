"""COCO-SSD's converter: a small graph of the same layers, against loops; then what the file finds."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from equipoise.detection.external import open_detector

TOOL = Path(__file__).resolve().parents[2] / "tools" / "coco_ssd.py"
SPEC = importlib.util.spec_from_file_location("coco_ssd", TOOL)
assert SPEC is not None
assert SPEC.loader is not None
coco_ssd = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(coco_ssd)

KINDS, EACH, WIDTH = 91, 3, 4  # scores of an anchor, anchors of a place, channels
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")


def strides(length: int) -> dict[str, Any]:
    return {"strides": {"list": {"i": ["1", str(length), str(length), "1"]}}}


def write_graph(folder: Path, halvings: int) -> dict[str, np.ndarray]:
    """Convolutions that halve the picture so often, one predictor, and anchors for what is left of 300 pixels."""
    make, constants, nodes = np.random.default_rng(0), dict[str, np.ndarray](), list[dict[str, Any]]()

    def number(name: str, *shape: int) -> str:
        constants[name] = (make.standard_normal(shape) / max(1, np.prod(shape[:-1])) ** 0.5).astype(np.float32)
        return name

    def node(operation: str, name: str, inputs: list[str], **attributes: Any) -> str:
        nodes.append({"op": operation, "name": name, "input": inputs, "attr": attributes})
        return name

    last, channels = coco_ssd.PICTURE, 3
    for step in range(halvings):
        last = node("Conv2D", f"conv{step}", [last, number(f"w{step}", 3, 3, channels, WIDTH)], **strides(2))
        last = node("Add", f"shift{step}", [last, number(f"b{step}", WIDTH)])
        last = node("Relu6", f"relu{step}", [last])
        channels = WIDTH
    apart = node("DepthwiseConv2dNative", "apart", [last, number("d", 3, 3, WIDTH, 1)], **strides(1))
    constants["variance"] = np.linspace(0.5, 2, WIDTH, dtype=np.float32)
    normal = [number(name, WIDTH) for name in ("gamma", "beta", "mean")]
    apart = node("FusedBatchNorm", "norm", [apart, *normal, "variance"], epsilon={"f": 0.001})
    apart = node("Mul", "scaled", [apart, number("m", WIDTH)])
    last = node("AddN", "joined", [last, apart])
    for kind, width, name in (("BoxEncodingPredictor", 4, "Reshape"), ("ClassPredictor", KINDS, "Reshape_1")):
        kernel = number(f"k-{kind}", 1, 1, WIDTH, EACH * width)
        made = node("Conv2D", f"BoxPredictor_0/{kind}/Conv2D", [last, kernel], **strides(1))
        made = node("BiasAdd", f"BoxPredictor_0/{kind}/BiasAdd", [made, number(f"s-{kind}", EACH * width)])
        made = node("Reshape", f"BoxPredictor_0/{name}", [made, "a shape that is worked out"])
        node("ConcatV2", coco_ssd.CODES if width == 4 else coco_ssd.SCORES, [made, "axis"])
    constants["axis"] = np.array(1, dtype=np.int32)
    places = 300
    for _ in range(halvings):
        places = -(-places // 2)
    low = make.uniform(0, 0.7, (1, EACH * places**2, 2))
    constants[coco_ssd.ANCHORS] = np.concatenate([low, low + make.uniform(0.1, 0.3, low.shape)], 2).astype(np.float32)
    (folder / "one").write_bytes(b"".join(value.tobytes() for value in constants.values()))
    told = [{"name": k, "shape": list(v.shape), "dtype": str(v.dtype)} for k, v in constants.items()]
    manifest = [{"paths": ["one"], "weights": told}]
    graph = {"modelTopology": {"node": nodes[::-1]}, "weightsManifest": manifest}  # in no order
    (folder / "model.json").write_text(json.dumps(graph))
    return constants


def convolved(picture: np.ndarray, kernel: np.ndarray, stride: int, apart: bool = False) -> np.ndarray:
    """[H, W, C] by kernels [h, w, C, O], zeros around it as TensorFlow's SAME has them."""
    height, width = (-(-side // stride) for side in picture.shape[:2])
    found = np.zeros((height, width, kernel.shape[2] if apart else kernel.shape[3]))
    before = [
        max((count - 1) * stride + size - side, 0) // 2
        for count, size, side in zip((height, width), kernel.shape[:2], picture.shape[:2], strict=True)
    ]
    for y, x in np.ndindex(height, width):
        for i, j in np.ndindex(kernel.shape[:2]):
            row, column = y * stride + i - before[0], x * stride + j - before[1]
            if 0 <= row < picture.shape[0] and 0 <= column < picture.shape[1]:
                seen = picture[row, column]
                found[y, x] += seen * kernel[i, j, :, 0] if apart else seen @ kernel[i, j]
    return found


def aloud(picture: np.ndarray, numbers: dict[str, np.ndarray], halvings: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = {name: value.astype(np.float64) for name, value in numbers.items()}
    last = picture
    for step in range(halvings):
        last = np.clip(convolved(last, numbers[f"w{step}"], 2) + numbers[f"b{step}"], 0, 6)
    apart = convolved(last, numbers["d"], 1, apart=True)
    apart = (apart - numbers["mean"]) / np.sqrt(numbers["variance"] + 0.001) * numbers["gamma"] + numbers["beta"]
    last = last + apart * numbers["m"]
    codes, scores = (
        convolved(last, numbers[f"k-{kind}"], 1) + numbers[f"s-{kind}"]
        for kind in ("BoxEncodingPredictor", "ClassPredictor")
    )
    return codes.reshape(-1, 4), scores.reshape(-1, KINDS)


@pytest.mark.parametrize("sides", [(9, 12), (16, 7)])
def test_layers_give_what_loops_give(tmp_path: Path, sides: tuple[int, int]) -> None:
    numbers = write_graph(tmp_path, halvings=2)
    network = coco_ssd.Network(*coco_ssd.read_graph(tmp_path))
    picture = np.random.default_rng(1).uniform(-1, 1, (*sides, 3))
    codes, scores = network(torch.tensor(picture, dtype=torch.float32).permute(2, 0, 1)[None])
    for mine, theirs in zip((codes, scores), aloud(picture, numbers, 2), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-5)


def test_pictures_are_resized_as_tensorflow_1_did() -> None:
    picture = torch.rand(3, 7, 5)
    resized = coco_ssd.Detector(torch.nn.Identity(), torch.zeros(1, 4), 12, 0.5, 0.0, 5).resized(picture)
    for y, x in np.ndindex(12, 12):
        row, column = y * 7 / 12, x * 5 / 12
        top, left = int(row), int(column)
        below, right = min(top + 1, 6), min(left + 1, 4)
        down, across = row - top, column - left
        upper = picture[:, top, left] * (1 - across) + picture[:, top, right] * across
        lower = picture[:, below, left] * (1 - across) + picture[:, below, right] * across
        torch.testing.assert_close(resized[:, y, x], upper * (1 - down) + lower * down, atol=1e-5, rtol=0)


def test_of_boxes_that_overlap_the_surest_is_kept() -> None:
    boxes = torch.tensor([[0, 0, 10, 10], [1, 0, 11, 10], [20, 20, 30, 30], [0, 0, 10, 4.0], [50, 50, 60, 60]])
    scores = torch.tensor([0.6, 0.9, 0.5, 0.7, 0.01])
    detector = coco_ssd.Detector(torch.nn.Identity(), torch.zeros(1, 4), 8, 0.5, 0.05, 5)
    kept = detector.non_maximum_suppression(boxes, scores).tolist()
    assert kept == [1, 3, 2], "the first overlaps by 82%, the fourth by 33%, the last is unsure"


def test_the_file_finds_regions_with_names_and_features(tmp_path: Path) -> None:
    numbers = write_graph(tmp_path, halvings=6)
    coco_ssd.detector(tmp_path).save(str(tmp_path / "detector.pt"))
    picture = torch.randint(0, 256, (3, 40, 60), dtype=torch.uint8)
    names = coco_ssd.labels()
    assert len(names) == 90
    assert (names[0], names[17], names[89]) == ("person", "dog", "toothbrush")
    (found,) = open_detector(tmp_path / "detector.pt", names)([picture], [])
    assert found.features is not None
    assert found.features.shape == (len(found.boxes), 90)
    assert [names[number] for number in found.features.argmax(1).tolist()] == list(found.labels)
    assert (found.boxes >= 0).all()
    assert (found.boxes <= 1).all()
    assert len(found.boxes) < len(numbers[coco_ssd.ANCHORS][0]), "some overlap"


@pytest.mark.parametrize("change", [lambda data: data[:-4], lambda data: data + b"0000"])
def test_a_file_of_another_length_is_said(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    write_graph(tmp_path, halvings=2)
    (tmp_path / "one").write_bytes(change((tmp_path / "one").read_bytes()))
    with pytest.raises(SystemExit, match="get it again"):
        coco_ssd.read_graph(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory; give the folder"),
        ("[", "no graph of TensorFlow.js"),
        ('{"modelTopology": {}}', "no graph of TensorFlow.js"),
        ('{"modelTopology": {"node": []}, "weightsManifest": []}', "it has no concat; is this COCO-SSD"),
    ],
)
def test_what_is_no_such_graph_is_said(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "model.json").write_text(text)
    with pytest.raises(SystemExit, match=said):
        coco_ssd.read_graph(tmp_path)
