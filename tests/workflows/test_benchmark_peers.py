"""`equipoise benchmark` of a random open_clip model on real pictures, beside the peers' own code on the same files.

open_clip's zero-shot and retrieval metrics (open_clip_train) are always run; CLIP_benchmark's and eccv_caption's where
they are installed. The peers' pictures are read by tarfile and PIL, not by our readers. Set EQUIPOISE_TEST_DATA, or
keep the data at ../shared/data beside the project.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from benchmark_parity import AsTheirs, classification, relevance, retrieval
from peer_sets import records, write_folders
from PIL import Image
from torch import Tensor

from equipoise.data.benchmark_sets.find import read_set
from equipoise.workflows.benchmark import BenchmarkRequest, run_benchmark
from equipoise.workflows.benchmark.open_clip_model import OpenClipModel
from equipoise.workflows.benchmark.suite import read_suite

REAL = Path(os.environ.get("EQUIPOISE_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
NEEDED = ("cifar10_test2k", "coco_128", "emoji_64", "fashion_products_64")
ARCHITECTURE = "tiny-for-peers"
TOLERANCE = 1e-6
CLASS_SETS, CAPTION_SETS = ("cifar10", "emoji", "fashion"), ("coco", "coco-one")
FASHION = 4  # every fourth picture: more cost time and show no more
SUITE = """
[cifar10]
task = "zero-shot"
data = "cifar10_test2k/test-000.tar"
classes = "cifar10"
[emoji]
task = "zero-shot"
data = "emoji"
[fashion]
task = "zero-shot"
data = "fashion"
[coco]
task = "retrieval"
data = "coco_128/dev-000.tar"
relevance.eccv = "eccv_caption/eccv_image_to_caption.json"
relevance.cxc = "eccv_caption/cxc_image_to_caption.json"
[coco-one]
task = "retrieval"
data = "coco_128/dev-000.tar"
captions = 1
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all((REAL / name).is_dir() for name in NEEDED),
        reason=f"{REAL} lacks some of {', '.join(NEEDED)}: parity on real pictures is NOT tested",
    ),
]


class Peer(NamedTuple):
    """A model, the sets, and our cells."""

    model: OpenClipModel
    root: Path
    cells: dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def peer(open_clip, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    root = tmp_path_factory.mktemp("sets")
    for name in ("cifar10_test2k", "coco_128"):
        (root / name).symlink_to(REAL / name)
    (root / "eccv_caption").symlink_to(REAL / "annotations" / "eccv_caption")
    write_folders(REAL / "emoji_64" / "all-000.tar", "category", root / "emoji")
    write_folders(REAL / "fashion_products_64" / "train-000.tar", "subCategory", root / "fashion", FASHION)
    (root / "suite.toml").write_text(SUITE)
    config = {
        "embed_dim": 32, "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 1},
    }  # fmt: skip
    (root / f"{ARCHITECTURE}.json").write_text(json.dumps(config))
    open_clip.add_model_config(root / f"{ARCHITECTURE}.json")
    word = f"open_clip:{ARCHITECTURE}"
    request = BenchmarkRequest((word,), str(root / "suite.toml"), root, root / "out", device="cpu")
    cells = {cell["dataset"]: cell["metrics"] for cell in run_benchmark(request)}
    yield Peer(OpenClipModel(word, torch.device("cpu")), root, cells)
    from open_clip import factory

    factory._MODEL_CONFIGS.pop(ARCHITECTURE, None)


def labelled(peer: Peer, name: str) -> tuple[list[Image.Image], list[int]]:
    """Pictures and labels of a set, without our readers; folders are classes in the order of their names."""
    if name == "cifar10":
        found = list(records(REAL / "cifar10_test2k" / "test-000.tar"))
        return [record.picture() for record in found], [int(record.parts["cls"]) for record in found]
    folders = sorted(path for path in (peer.root / name).iterdir())
    files = [(file, number) for number, folder in enumerate(folders) for file in sorted(folder.iterdir())]
    return [Image.open(file).convert("RGB") for file, _ in files], [number for _, number in files]


def prepared(peer: Peer, pictures: list[Image.Image]) -> list[Tensor]:
    images = torch.stack([peer.model.prepare(picture) for picture in pictures])
    return list(images.split(128))


def hits(output: Tensor, target: Tensor, topk: tuple[int, ...]) -> list[float]:
    """What open_clip's `accuracy` computes; its conversion of an array to a number is refused by numpy 2.4."""
    found = output.topk(max(topk), 1, True, True).indices == target[:, None]
    return [float(found[:, :k].sum()) for k in topk]


@pytest.mark.parametrize("name", CLASS_SETS)
def test_zero_shot_is_open_clips_own(peer: Peer, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its classifier and its loop; names and prompts are those of the set."""
    import open_clip_train.zero_shot
    from open_clip import build_zero_shot_classifier
    from open_clip_train.zero_shot import run

    monkeypatch.setattr(open_clip_train.zero_shot, "accuracy", hits)

    found = read_set(name, read_suite(str(peer.root / "suite.toml"))[name], peer.root)
    pictures, labels = labelled(peer, name)
    assert len(labels) == len(found.labels)
    weights = build_zero_shot_classifier(
        peer.model.model, peer.model.tokenizer, list(found.names), [one.replace("{c}", "{}") for one in found.templates]
    )
    batches = list(zip(prepared(peer, pictures), torch.tensor(labels).split(128), strict=True))
    args = SimpleNamespace(device="cpu", precision="fp32", batch_size=128)
    first, five = run(peer.model.model, weights, batches, args)
    assert peer.cells[name]["acc1"] == pytest.approx(first, abs=TOLERANCE)
    assert peer.cells[name]["acc5"] == pytest.approx(five, abs=TOLERANCE)
    assert 0 < first < 1


def test_retrieval_is_open_clips_own(peer: Peer) -> None:
    """One caption of each picture, by its metrics of validation data."""
    from open_clip_train.train import get_clip_metrics

    found = list(records(REAL / "coco_128" / "dev-000.tar"))
    captions = [record.parts["txt"].decode().splitlines()[0] for record in found]
    with torch.no_grad():
        images = torch.cat([
            peer.model.model.encode_image(batch, normalize=True)
            for batch in prepared(peer, [record.picture() for record in found])
        ])  # fmt: skip
        texts = peer.model.model.encode_text(peer.model.tokenizer(captions), normalize=True)
    theirs = get_clip_metrics(images, texts, torch.tensor(1.0))
    assert len(captions) == 1407
    for direction in ("image_to_text", "text_to_image"):
        for k in (1, 5, 10):
            name = f"{direction}_R@{k}"
            assert peer.cells["coco-one"][name] == pytest.approx(theirs[name], abs=TOLERANCE), name


@pytest.mark.parametrize("name", CLASS_SETS)
def test_zero_shot_is_clip_benchmarks(peer: Peer, name: str) -> None:
    pytest.importorskip("clip_benchmark", reason="clip_benchmark is not installed: parity with it is NOT tested")
    found = read_set(name, read_suite(str(peer.root / "suite.toml"))[name], peer.root)
    theirs = classification(AsTheirs(peer.model), found)
    assert set(theirs) == {"acc1", "acc5", "mean_per_class_recall"}
    for metric, value in theirs.items():
        assert peer.cells[name][metric] == pytest.approx(value, abs=TOLERANCE), metric


@pytest.mark.parametrize(("name", "captions"), zip(CAPTION_SETS, (5, 1), strict=True))
def test_retrieval_is_clip_benchmarks(peer: Peer, name: str, captions: int) -> None:
    pytest.importorskip("clip_benchmark", reason="clip_benchmark is not installed: parity with it is NOT tested")
    found = read_set(name, read_suite(str(peer.root / "suite.toml"))[name], peer.root)
    theirs = retrieval(AsTheirs(peer.model), found, captions)
    assert len(theirs) == 6
    for metric, value in theirs.items():
        assert peer.cells[name][metric] == pytest.approx(value, abs=TOLERANCE), metric


def test_relevance_is_eccv_captions(peer: Peer) -> None:
    pytest.importorskip("eccv_caption", reason="eccv_caption is not installed: parity with it is NOT tested")
    found = read_set("coco", read_suite(str(peer.root / "suite.toml"))["coco"], peer.root)
    texts = [one for number in range(len(found.source)) for one in found.source.pair(number).captions[:5]]
    theirs = relevance(found, peer.model.images(found.source), peer.model.texts(texts), 5)
    assert len(theirs) == 12
    for metric, value in theirs.items():
        assert peer.cells["coco"][metric] == pytest.approx(value, abs=TOLERANCE), metric
