"""`equipoise regions` with a model, a vocabulary and mixtures; killed in the middle; detectors of torchvision."""

from __future__ import annotations

import signal
import subprocess
import sys
import tarfile
import warnings
from pathlib import Path

import pytest
import torch
from open_clip_peer import make_torchvision_importable
from PIL import Image, ImageDraw
from torch import Tensor

from equipoise import load
from equipoise.cli import main
from equipoise.config import load_run
from equipoise.data.files.regions import RegionFiles
from equipoise.data.shard_writer import write_shard
from equipoise.data.source import Pair
from equipoise.detection import open_detector
from equipoise.detection.saliency import distinct
from equipoise.types import UserError

COLOURS = ("red", "blue", "green", "white")
KILLED = """
import importlib, os, signal, sys
from equipoise.cli import main
looking = importlib.import_module("equipoise.detection.detect")
look, seen = looking._detect_batch, []
def dying(*arguments):
    look(*arguments)
    seen.append(1)
    if len(seen) == 3:  # in the middle of the second file
        os.kill(os.getpid(), signal.SIGKILL)
looking._detect_batch = dying
main(sys.argv[1:])
"""


def shard(path: Path, count: int = 6) -> Path:
    samples = []
    for number in range(count):
        image, side = Image.new("RGB", (48, 36), (200, 200, 190)), 4 + number
        ImageDraw.Draw(image).rectangle((side, side, side + 12, side + 10), fill=COLOURS[number % 4])
        image.save(path.with_suffix(".png"))
        text = f"a {COLOURS[number % 4]} block on a table".encode()
        samples.append({"__key__": f"{path.stem}{number}", "png": path.with_suffix(".png").read_bytes(), "txt": text})
    path.with_suffix(".png").unlink()
    write_shard(path, samples)
    return path


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_model_describes_regions_and_a_vocabulary_names_them(tmp_path, finished_run):
    data, words = shard(tmp_path / "a.tar"), ["a red block", "a blue star", "a fish"]
    (tmp_path / "words").write_text("\n".join(words))
    options = ["--model", str(finished_run), "--vocabulary", str(tmp_path / "words"), "--most", "2"]
    assert main(["regions", str(data), "--out", str(tmp_path / "r"), *options]) == 0
    found, model = RegionFiles(tmp_path / "r"), load(finished_run)
    assert found.width == 16 + 4  # the model's space, and the box
    features, _ = found.of("a3")
    whole = Image.open(_picture(data, "a3", tmp_path)).convert("RGB")
    points = []
    for box in features[:, -4:].tolist():
        corners = [round(edge * side) for edge, side in zip(box, (48, 36, 48, 36), strict=True)]
        points.append(model.encode_image([whole.crop(corners)])[0])
    torch.testing.assert_close(features[:, :-4], torch.stack(points).detach(), atol=2e-3, rtol=0)  # kept in float16
    best = model.similarity(torch.stack(points), model.encode_text(words)).argmax(1).tolist()
    assert found.tags("a3") == tuple(dict.fromkeys(words[number] for number in best))


def _picture(data: Path, key: str, folder: Path) -> Path:
    with tarfile.open(data) as archive:
        path = folder / f"{key}.png"
        path.write_bytes(archive.extractfile(f"{key}.png").read())
    return path


def test_a_mixture_gets_a_folder_for_each_part(tmp_path):
    one, two = shard(tmp_path / "a.tar"), shard(tmp_path / "b.tar", 3)
    recipe = tmp_path / "m.toml"
    recipe.write_text(
        'name = "m"\n[data]\nname = "mixture"\n'
        + "".join(f'[data.parts.{path.stem}]\nname = "shards"\ntrain = "{path}"\nvalidation = "{path}"\n'
                  f'regions = "{tmp_path}/r/{path.stem}/train"\n' for path in (one, two))
    )  # fmt: skip
    assert main(["regions", str(recipe), "--split", "train", "--most", "2", "--out", str(tmp_path / "r")]) == 0
    source = load_run(str(recipe)).run.data.build("train")
    features, mask = source.regions(range(9))
    assert features.shape == (9, 2, 196)
    assert bool(mask.all())
    assert {source.tags(index)[-1] for index in range(9)} == {"table"}


def test_two_records_of_one_key_are_refused(tmp_path, capsys):
    (tmp_path / "b").mkdir()
    shard(tmp_path / "a.tar", 2).rename(tmp_path / "0.tar")
    shard(tmp_path / "b" / "a.tar", 2).rename(tmp_path / "1.tar")
    assert main(["regions", str(tmp_path / "{0..1}.tar"), "--out", str(tmp_path / "r")]) == 2
    assert "1.tar, record a0 have the same key, by which regions are found" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path):
    data = shard(tmp_path / "a.tar", 8)
    same = ["regions", str(data), "--most", "2", "--per-file", "4", "--batch-size", "2", "--out"]
    assert main([*same, str(tmp_path / "whole")]) == 0
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *same, str(tmp_path / "killed")], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "00000.safetensors" in bytes_of(tmp_path / "killed")
    assert "00001.safetensors" not in bytes_of(tmp_path / "killed")
    assert main([*same, str(tmp_path / "killed")]) == 0
    assert bytes_of(tmp_path / "killed") == bytes_of(tmp_path / "whole")


def test_what_makes_no_sense_together_gets_a_sentence(tmp_path, capsys):
    data = shard(tmp_path / "a.tar", 2)
    (tmp_path / "words").write_text("red\n")
    (tmp_path / "d.pt2").write_bytes(b"nonsense")
    (tmp_path / "d.onnx").write_bytes(b"nonsense")
    cases = (
        (["--labels", str(tmp_path / "words")], "--labels names the classes of a detector from a file; salient has"),
        (["--vocabulary", str(tmp_path / "words")], "--vocabulary needs --model"),
        (["--detector", "given"], "has boxes with tags in its .json; use --detector salient"),
        (["--detector", "saliency"], "a detector is salient, given, or a file ending in .pt"),
        (["--detector", str(tmp_path / "d.pt2")], "d.pt2: this is no torch.export program, or not all of it"),
        (["--detector", str(tmp_path / "d.onnx")], "d.onnx: this is no ONNX model"),
    )
    for options, sentence in cases:
        assert main(["regions", str(data), "--out", str(tmp_path / "r"), *options]) == 2
        said = capsys.readouterr().err.strip()
        assert sentence in said
        assert "\n" not in said
    assert not (tmp_path / "r").exists()


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch):
    """torchvision; beside a torch it was not built for its operators are absent, and `distinct` is its nms."""
    make_torchvision_importable()
    found = pytest.importorskip("torchvision", reason="torchvision is not installed: its detectors are NOT tested")
    if torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU"):
        yield found
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor")
    library.impl("nms", _nms, "CPU")
    monkeypatch.setattr(found.extension, "_has_ops", _has_ops)
    yield found
    library._destroy()


def _nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    return distinct(dets, scores, len(dets), iou_threshold)


def _has_ops() -> bool:
    return True


def test_a_scripted_detector_of_torchvision(torchvision, tmp_path, monkeypatch):
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    torch.manual_seed(0)
    backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 8, 8))
    backbone.out_channels = 8
    anchors = AnchorGenerator(((16, 32),), ((1.0,),))
    sizes = {"min_size": 48, "max_size": 64, "score_thresh": 0.0, "topk_candidates": 20}
    model = RetinaNet(backbone, num_classes=3, anchor_generator=anchors, **sizes).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(model).save(str(tmp_path / "d.pt"))
        picture = torch.randint(256, (3, 40, 60), dtype=torch.uint8)
        (found,) = open_detector(tmp_path / "d.pt", ("cat", "dog", "cow"))([picture], [Pair("k", ("a cat",))])
    with torch.no_grad():
        (wanted,) = model([picture / 255])
    assert len(found.boxes) > 3
    torch.testing.assert_close(found.boxes, (wanted["boxes"] / torch.tensor([60, 40, 60, 40])).clamp(0, 1))
    torch.testing.assert_close(found.scores, wanted["scores"])
    assert found.labels == tuple(("cat", "dog", "cow")[number] for number in wanted["labels"])
    monkeypatch.setitem(sys.modules, "torchvision", None)  # importing it now fails, as if it were not installed
    with pytest.raises(UserError, match=r"needs torchvision's operators"):
        open_detector(tmp_path / "d.pt")
