"""Detectors without a download and from files, phrases of captions, and the way from shards to a guided run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn

from equipoise.cli import main
from equipoise.data.files.regions import RegionFiles
from equipoise.data.shard_writer import write_shard
from equipoise.data.source import Pair
from equipoise.detection import DetectedRegions, Phrases, open_detector
from equipoise.detection.saliency import distinct, overlaps, salient_boxes
from equipoise.types import UserError

SHAPES = {"disc": "ellipse", "block": "rectangle"}
COLOURS = ("red", "blue", "green")


class Corner(nn.Module):
    """Finds the left upper quarter and, less sure, the whole; its features say how bright the picture is."""

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        boxes = torch.tensor([[0.0, 0.0, 40.0, 40.0], [0.0, 0.0, 20.0, 20.0]])
        features = image.mean() * torch.ones(2, 5)
        return {
            "boxes": boxes,
            "labels": torch.tensor([1, 0]),
            "scores": torch.tensor([0.4, 0.9]),
            "features": features,
        }


class Scripted(nn.Module):
    """Answers as torchvision's scripted detectors do."""

    def forward(self, images: list[Tensor]) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
        found: list[dict[str, Tensor]] = []
        for image in images:
            side = float(image.shape[2])
            boxes = torch.tensor([[0.0, 0.0, side / 2, side / 2]])
            found.append({"boxes": boxes, "labels": torch.tensor([1]), "scores": torch.tensor([0.7])})
        return {}, found


def drawn(shape: str, colour: str, left: int, top: int) -> Image.Image:
    image = Image.new("RGB", (64, 64), (200, 200, 190))
    getattr(ImageDraw.Draw(image), SHAPES[shape])((left, top, left + 20, top + 20), fill=colour)
    return image


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 pictures of one thing each; the last cannot be decoded."""
    folder = tmp_path_factory.mktemp("pictures")
    samples = []
    for number in range(40):
        shape, colour = list(SHAPES)[number % 2], COLOURS[number % 3]
        left, top = 4 + number, 38 - number
        path = folder / "one.png"
        drawn(shape, colour, left, max(2, top)).save(path)
        side = {"tags": [f"{colour} {shape}"], "boxes": [[left / 64, max(2, top) / 64, (left + 21) / 64, 0.9]]}
        samples.append(
            {
                "__key__": f"{number:03d}",
                "png": path.read_bytes() if number < 39 else b"no picture",
                "txt": f"a {colour} {shape} lies on the table\nthe {shape} is {colour}".encode(),
                "json": json.dumps(side).encode(),
            }
        )
    for part in range(2):
        write_shard(folder / f"{part}.tar", samples[part * 20 : part * 20 + 20])
    return folder


def regions(shards: Path, out: Path, *options: str) -> int:
    return main(["regions", str(shards / "{0..1}.tar"), "--out", str(out), "--per-file", "16", *options])


def test_what_stands_out_is_found():
    image = torch.full((1, 3, 80, 80), 200, dtype=torch.uint8)
    image[:, 0, 20:60, 20:60] = 20
    boxes, scores = salient_boxes(image, 4)
    assert float(overlaps(boxes[0], torch.tensor([20, 20, 60, 60]) / 80).max()) > 0.5
    assert bool((scores[0].diff() <= 0).all())
    flat, nothing = salient_boxes(torch.full((1, 3, 9, 200), 7, dtype=torch.uint8), 3)
    assert flat.isfinite().all()
    assert float(nothing.max()) < 1e-6


def test_overlaps_and_suppression_against_loops():
    make = torch.Generator().manual_seed(0)
    low = torch.rand(30, 2, generator=make)
    boxes = torch.cat([low, low + torch.rand(30, 2, generator=make)], 1)
    scores = torch.rand(30, generator=make)

    def shared(a: list[float], b: list[float]) -> float:
        both = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
        return both / (sum((x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)) - both)

    kept: list[int] = []
    for number in scores.argsort(descending=True).tolist():
        if all(shared(boxes[number].tolist(), boxes[other].tolist()) <= 0.4 for other in kept):
            kept.append(number)
    assert distinct(boxes, scores, 30, 0.4).tolist() == kept


def test_the_best_regions_are_kept_in_order():
    boxes = torch.tensor([[0, 0, 1, 1], [0, 0, 0.5, 0.5], [0.2, 0.2, 0.2, 0.9], [0, 0, 0.1, 0.1]])
    found = DetectedRegions(boxes, torch.tensor([0.2, 0.9, 1.0, 0.05]), ("a", "b", "flat", "d"))
    best = found.best(most=3, least_score=0.1)
    assert best.labels == ("b", "a")
    assert len(found.best(most=1, least_score=0.0).boxes) == 1


def test_phrases_are_nouns_with_their_adjectives():
    captions = [
        f"{det} {adjective} {noun} {verb} on the {place}"
        for det in ("a", "the")
        for adjective in ("brown", "small")
        for noun in ("dog", "cat", "horse")
        for verb in ("sleeps", "runs")
        for place in ("grass", "road")
    ] + [f"{det} {noun}" for noun in ("dog", "cat", "horse") for det in ("a", "the", "one", "some", "this", "my")]
    phrases = Phrases.learned(captions)
    assert list(phrases.phrases("A brown dog sleeps on the grass.")) == ["brown dog", "grass"]
    assert list(phrases.phrases("is brown, sleeps")) == []
    assert phrases.of(["a dog runs on the road", "a small dog runs", "a small dog"], 2) == ("small dog", "road")
    assert Phrases.learned([]).of(["..."], 3) == ()


def test_scripted_and_exported_detectors_say_what_they_find(tmp_path):
    torch.jit.script(Scripted()).save(str(tmp_path / "d.pt"))
    torch.export.save(torch.export.export(Corner(), (torch.zeros(3, 40, 40),)), tmp_path / "d.pt2")
    picture, pair = torch.full((3, 80, 120), 255, dtype=torch.uint8), Pair("k", ("a thing",))
    (found,) = open_detector(tmp_path / "d.pt", ("cat", "dog"))([picture], [pair])
    torch.testing.assert_close(found.boxes, torch.tensor([[0, 0, 0.5, 0.75]]))
    assert found.labels == ("dog",)
    (found,) = open_detector(tmp_path / "d.pt2", ("cat", "dog"))([picture], [pair])  # of fixed size, 40 x 40
    torch.testing.assert_close(found.boxes, torch.tensor([[0, 0, 1, 1], [0, 0, 0.5, 0.5]]))
    torch.testing.assert_close(found.features, torch.ones(2, 5))
    assert found.best(1, 0.0).labels == ("cat",)
    with pytest.raises(UserError, match=r"labels \[1\]\.\.\., but there are 1 names"):
        open_detector(tmp_path / "d.pt", ("cat",))([picture], [pair])


def test_an_onnx_detector_says_what_it_finds(tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: ONNX detectors are NOT tested")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: ONNX detectors are NOT tested")
    from onnx import TensorProto as T
    from onnx import helper, numpy_helper

    outputs = {"scores": torch.tensor([0.8]), "boxes": torch.tensor([[2.0, 0, 4, 8]]), "labels": torch.tensor([1])}
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value.numpy()))
        for name, value in outputs.items()
    ]
    kinds = {"scores": T.FLOAT, "boxes": T.FLOAT, "labels": T.INT64}
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("image", T.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info(name, kinds[name], list(value.shape)) for name, value in outputs.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "d.onnx")
    (found,) = open_detector(tmp_path / "d.onnx", ("x", "y"))([torch.zeros(3, 30, 20).byte()], [Pair("k", ("a",))])
    torch.testing.assert_close(found.boxes, torch.tensor([[0.25, 0, 0.5, 1]]))
    assert found.labels == ("y",)


def test_a_pickle_is_not_opened(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"model": Trap()}, tmp_path / "d.pt")
    with pytest.raises(UserError, match="a pickled model is not opened"):
        open_detector(tmp_path / "d.pt")
    assert not (tmp_path / "ran").exists()
    for name, sentence in (("d.pth", "ending in .pt, .ts, .pt2, .onnx"), ("gone.pt2", "there is no such file")):
        with pytest.raises(UserError, match=sentence):
            open_detector(tmp_path / name)


@pytest.mark.slow
def test_shards_to_regions_to_a_guided_run(shards, tmp_path, capsys):
    out = tmp_path / "regions"
    assert regions(shards, out, "--most", "3") == 0
    said = capsys.readouterr()
    assert "1 records have no regions: their rows of a target stay one-hot" in said.out
    assert "no regions for" in said.err
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(before) >= {"00000.safetensors", "00002.json", "regions.json", "report.json", "sheet.png"}
    found = RegionFiles(out)
    assert (found.most, found.width) == (3, 196)
    assert found.tags("001") == ("blue block", "table")
    for name in ("00001.safetensors", "00001.json", "report.json"):  # as if it had been killed there
        (out / name).unlink()
    assert regions(shards, out, "--most", "3", "--batch-size", "5") == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert regions(shards, out, "--most", "4") == 2
    assert "made with other settings (most" in capsys.readouterr().err

    recipe = tmp_path / "r.toml"
    recipe.write_text(
        f'name = "r"\n[data]\nname = "shards"\ntrain = "{shards}/{{0..1}}.tar"\nregions = "{out}"\nmax_bad = 0.5\n'
        "[tokens]\nvocabulary = 600\ncontext = 12\n[preprocess]\nsize = 16\n[image]\nname = 'vit-nano'\npatch = 8\n"
        "width = 16\nlayers = 1\n[text]\nname = 'causal-nano'\nwidth = 16\nlayers = 1\n[space]\ndim = 8\n"
        "[objective]\nname = 'softclip'\n[regions]\nwidth = 196\nblocks = 1\n"
        "[training]\nsteps = 2\nbatch_size = 8\nwarmup_steps = 1\n"
    )
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 0
    assert main(["train", str(recipe), "--set", "regions.width=2052", "--out", str(tmp_path / "wide")]) == 2
    assert "regions are 196 wide, not 2052; set regions.width" in capsys.readouterr().err


def test_boxes_and_tags_that_are_there_already(shards, tmp_path):
    assert regions(shards, tmp_path / "g", "--detector", "given") == 0
    found = RegionFiles(tmp_path / "g")
    assert found.tags("002") == ("green disc",)
    torch.testing.assert_close(
        found.of("002")[0][0, -4:], torch.tensor([6 / 64, 36 / 64, 27 / 64, 0.9]), atol=1e-3, rtol=0
    )


def test_what_cannot_be_used_gets_a_sentence(shards, tmp_path, capsys):
    (tmp_path / "words").write_text("red\n\nblue\n")
    cases = (
        (["--vocabulary", str(shards / "0.tar")], "one name a line"),
        (["--vocabulary", str(tmp_path / "words")], "line 2 is empty"),
        (["--detector", "nowhere.onnx"], "there is no such file"),
        (["--most", "0"], "most must be at least 1"),
    )
    for options, sentence in cases:
        assert regions(shards, tmp_path / "x", *options) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    with pytest.raises(UserError, match="there are no regions in it"):
        RegionFiles(tmp_path / "x")
