"""`equipoise benchmark`: models of any kind on sets of one's own; goes on where it was; equal to CLIP_benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from captioned_pictures import write_captioned
from class_pictures import write_class_folders
from PIL import Image

import equipoise.workflows.benchmark.embedder as embedders
from equipoise.cli import main
from equipoise.data.benchmark_sets.caption_set import read_caption_set
from equipoise.data.benchmark_sets.class_folders import read_class_folders
from equipoise.types import UserError
from equipoise.workflows.benchmark import BenchmarkRequest, run_benchmark
from equipoise.workflows.benchmark.open_clip_model import OpenClipModel

SUITE = """
[colours]
task = "zero-shot"
data = "colours"

[captions]
task = "retrieval"
data = "captioned/coco.json"
relevance.own = "own.csv"
grades.sits = "sits.csv"

[copies]
task = "copies"
data = "copydays"
"""
ARCHITECTURE = "tiny-for-tests"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sets")
    write_class_folders(root / "colours", each=6)
    folder = write_captioned(root / "captioned", 24)
    coco = json.loads((folder / "coco.json").read_text())
    for number, one in enumerate(coco["annotations"]):
        one["id"] = 100 + number
    for image in coco["images"]:
        image["file_name"] = f"images/{image['file_name']}"
    (folder / "coco.json").write_text(json.dumps(coco))
    pairs = "".join(f"{number // 2},{100 + number}\n" for number in range(48))
    (root / "own.csv").write_text("image_id,caption_id\n" + pairs + "0,102\n999,100\n")
    graded = "".join(f"{100 + number},{number * 7 % 24},{number % 6}\n" for number in range(40))
    (root / "sits.csv").write_text("caption,image,agg_score\n" + graded)
    for number in range(4):
        picture = Image.open(root / "colours" / "red" / f"{number}.png").convert("RGB")
        for name in (f"original/20{number:02d}00.jpg", f"strong/20{number:02d}01.jpg"):
            (root / "copydays" / name).parent.mkdir(parents=True, exist_ok=True)
            picture.save(root / "copydays" / name)
        if number < 2:
            (root / "copydays" / "crops" / "50").mkdir(parents=True, exist_ok=True)
            picture.crop((0, 0, 16, 16)).save(root / "copydays" / "crops" / "50" / f"20{number:02d}00.jpg")
    (root / "suite.toml").write_text(SUITE)
    return root


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from test_own_files import WORDS

    out = tmp_path_factory.mktemp("run") / "mine"
    assert main(["train", str(root / "captioned" / "pairs.csv"), "--out", str(out), "--epochs", "1", *WORDS]) == 0
    return out


def benchmark(root: Path, out: Path, *models: object, only: tuple[str, ...] = (), **more: bool) -> list[dict]:
    request = BenchmarkRequest(tuple(map(str, models)), str(root / "suite.toml"), root, out, only, device="cpu", **more)
    return run_benchmark(request)


def test_cells_have_numbers_intervals_and_clip_benchmarks_shape(root: Path, run: Path, tmp_path: Path) -> None:
    cells = {cell["dataset"]: cell for cell in benchmark(root, tmp_path, run)}
    assert set(cells) == {"colours", "captions", "copies"}
    for cell in cells.values():
        assert {"dataset", "model", "pretrained", "task", "metrics", "language"} <= set(cell)
        main_metric = cell["equipoise"]["main"]
        low, high = cell["equipoise"]["intervals"][main_metric]
        assert low <= cell["metrics"][main_metric] <= high
    assert cells["colours"]["task"] == "zeroshot_classification"
    found = cells["captions"]
    assert found["equipoise"]["captions_per_image"] == "2"
    assert found["metrics"]["text_retrieval_recall@5"] == found["metrics"]["image_to_text_R@5"]
    assert found["metrics"]["image_to_text_own_mAP@R"] >= 0
    assert found["equipoise"]["own_pairs"] == "98 of 100"
    assert -1 <= found["metrics"]["sits_spearman"] <= 1
    copies = cells["copies"]["metrics"]
    assert copies["R@1"] >= 0.5  # the copies are saved as their originals are
    assert copies["mAP"] == pytest.approx((4 * copies["strong_mAP"] + 2 * copies["crops/50_mAP"]) / 6)
    assert copies["strong_R@1"] >= 0.5
    assert json.loads((tmp_path / "benchmark.json").read_text()) == list(cells.values())
    page = (tmp_path / "benchmark.html").read_text()
    assert "colours" in page
    assert "<script" not in page


def test_a_main_metric_that_is_not_there_is_one_sentence(root: Path, run: Path, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text('[c]\ntask = "zero-shot"\ndata = "colours"\nmain = "accuracy"\n')
    with pytest.raises(UserError, match=r"c: there is no accuracy to read.*acc1"):
        run_benchmark(BenchmarkRequest((str(run),), str(tmp_path / "suite.toml"), root, tmp_path / "out", device="cpu"))


def test_numbers_are_those_of_eval(root: Path, run: Path, tmp_path: Path) -> None:
    from equipoise.evaluation.evaluate import evaluate
    from equipoise.evaluation.settings import Evaluation
    from equipoise.workflows.load import load

    model, found = load(run), benchmark(root, tmp_path, run, only=("colours", "captions"))
    captioned = read_caption_set(root / "captioned" / "coco.json").source
    expected = evaluate(model, captioned, Evaluation(copies="misses"))["retrieval"].metrics
    for cell in found:
        if cell["dataset"] == "captions":
            for name in ("image_to_text_R@1", "text_to_image_R@10", "mean_recall", "rsum"):
                assert cell["metrics"][name] == pytest.approx(expected[name], abs=1e-9)


def test_it_goes_on_with_cells_and_features_that_are_there(root: Path, run: Path, tmp_path: Path, monkeypatch) -> None:
    first = benchmark(root, tmp_path, run, only=("colours",))
    calls: list[int] = []
    former = embedders.OwnModel.images
    monkeypatch.setattr(embedders.OwnModel, "images", lambda self, source: calls.append(1) or former(self, source))
    assert benchmark(root, tmp_path, run, only=("colours",)) == first
    assert not calls
    (tmp_path / "cells" / "mine--colours.json").unlink()  # as if it was stopped before this cell
    assert benchmark(root, tmp_path, run, only=("colours",)) == first
    assert not calls  # the features were there
    (tmp_path / "cells" / "mine--colours.json").write_text("{")
    for file in (tmp_path / "features").iterdir():
        file.write_bytes(b"damaged")
    assert benchmark(root, tmp_path, run, only=("colours",)) == first
    assert calls == [1]


def test_other_pictures_are_other_cells(root: Path, run: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(root, tmp_path / "sets")
    (before,) = benchmark(tmp_path / "sets", tmp_path / "out", run, only=("colours",))
    Image.new("RGB", (32, 32), (1, 2, 3)).save(tmp_path / "sets" / "colours" / "red" / "0.png")
    (after,) = benchmark(tmp_path / "sets", tmp_path / "out", run, only=("colours",))
    assert before["equipoise"]["key"] != after["equipoise"]["key"]


@pytest.mark.slow
def test_an_onnx_pair_scores_as_the_model_it_was_exported_from(root: Path, run: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: ONNX pairs are NOT tested")
    assert main(["export", str(run), "--to", "onnx", "--out", str(tmp_path / "pair")]) == 0
    cells = benchmark(root, tmp_path / "out", run, tmp_path / "pair", only=("colours", "captions"))
    ours, theirs = cells[:2], cells[2:]
    for one, other in zip(ours, theirs, strict=True):
        assert other["metrics"] == pytest.approx(one["metrics"], abs=1e-6)


@pytest.fixture
def tiny_open_clip(open_clip, tmp_path: Path) -> Iterator[str]:
    """An architecture of open_clip's that builds in no time."""
    config = {
        "embed_dim": 32, "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 1},
    }  # fmt: skip
    (tmp_path / f"{ARCHITECTURE}.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / f"{ARCHITECTURE}.json")
    yield f"open_clip:{ARCHITECTURE}"
    from open_clip import factory

    factory._MODEL_CONFIGS.pop(ARCHITECTURE, None)


class Batches(list):
    """What CLIP_benchmark takes for a loader: batches, and a dataset with classes."""

    def __init__(self, batches, classes):
        super().__init__(batches)
        self.dataset = SimpleNamespace(classes=classes)


@pytest.mark.slow
def test_equals_clip_benchmarks_own_evaluation(root: Path, tiny_open_clip: str, tmp_path: Path) -> None:
    """Its loops on its own loaders, with the same model and files."""
    reason = "clip_benchmark is not installed: parity with it is NOT tested"
    classification = pytest.importorskip("clip_benchmark.metrics.zeroshot_classification", reason=reason)
    retrieval = pytest.importorskip("clip_benchmark.metrics.zeroshot_retrieval", reason=reason)
    cells = {
        cell["dataset"]: cell["metrics"]
        for cell in benchmark(root, tmp_path / "out", tiny_open_clip, only=("colours", "captions"))
    }
    model = OpenClipModel(tiny_open_clip, torch.device("cpu"))
    colours = read_class_folders(root / "colours", None)
    pictures = [Image.open(colours.source.records.place(n)).convert("RGB") for n in range(len(colours.source))]
    images, labels = torch.stack([model.prepare(one) for one in pictures]), torch.tensor(colours.labels)
    batches = Batches(zip(images.split(7), labels.split(7), strict=True), colours.names)
    templates = [template.replace("{}", "{c}") for template in colours.templates]
    words = (model.model, model.tokenizer, list(colours.names), templates, "cpu")
    weights = classification.zero_shot_classifier(*words, amp=False)
    logits, target = classification.run_classification(model.model, weights, batches, "cpu", amp=False)
    # its `evaluate` adds these two lines, with a conversion of an array to a number that numpy 2.4 refuses
    assert cells["colours"]["acc1"] == pytest.approx((logits.argmax(1) == target).double().mean().item(), abs=1e-6)
    recall = classification.balanced_accuracy_score(target, logits.argmax(1))
    assert cells["colours"]["mean_per_class_recall"] == pytest.approx(recall, abs=1e-6)
    captioned = read_caption_set(root / "captioned" / "coco.json").source
    files = [root / "captioned" / captioned.pair(number).key for number in range(len(captioned))]
    prepared = [model.prepare(Image.open(file).convert("RGB")) for file in files]
    pairs = [(image, captioned.pair(number).captions) for number, image in enumerate(prepared)]
    loader = [(torch.stack([image for image, _ in pairs[k : k + 6]]), [texts for _, texts in pairs[k : k + 6]])
              for k in range(0, len(pairs), 6)]  # fmt: skip
    expected = retrieval.evaluate(model.model, loader, model.tokenizer, "cpu", amp=False, recall_k_list=[1, 5, 10])
    for name, value in expected.items():
        assert cells["captions"][name] == pytest.approx(value, abs=1e-6), name


def test_the_list_tells_what_is_needed_and_what_is_there(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "--list", "--suite", "zero-shot", "--data", str(root), "--json"]) == 0
    sets = json.loads(capsys.readouterr().out)["sets"]
    assert sets["pets"]["place"] is None
    assert "oxford-iiit-pet" in sets["pets"]["needs"]
    assert main(["benchmark", "--list", "--suite", str(root / "suite.toml"), "--data", str(root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sets"]["colours"]["place"] == str(root / "colours")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--data ROOT is missing"),
        (("--data", "nowhere"), "no such folder"),
        (("--data", "{root}", "--suite", "pets"), "pets is not in"),
        (("--data", "{root}", "--suite", "retreival"), "did you mean retrieval"),
        (("--data", "{root}", "--suite", "{root}/suite.toml", "--only", "cars"), "not in the suite"),
        (("--data", "{root}", "--suite", "zero-shot", "--skip-missing"), "none of the sets"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(words, said, root: Path, run: Path, tmp_path: Path, capsys) -> None:
    filled = [word.format(root=root) for word in words]
    assert main(["benchmark", str(run), *filled, "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "names no set"), ("[a]\ntask='zero-shot'\n", "data is missing"), ("[a", "no TOML"),
        ("[a]\ntask='zeroshot'\ndata='x'", "choose one of"), ("[a]\ntask='retrieval'\ndata='x'\nfold=2", "fold"),
        ("[a]\ntask='retrieval'\ndata='x'\nfolds=0", "folds"), ("a=1", "no table"),
        ("[a]\ntask='retrieval'\ndata='captioned/coco.json'\nrelevance.x='none.csv'", "no such file of relevance"),
    ],
)  # fmt: skip
def test_a_wrong_suite_is_one_sentence(content, said, root: Path, run: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "suite.toml").write_text(content)
    assert main(["benchmark", str(run), "--suite", str(tmp_path / "suite.toml"), "--data", str(root)]) == 2
    assert said in capsys.readouterr().err


def test_models_that_are_none_are_one_sentence(root: Path, tmp_path: Path, capsys) -> None:
    common = ["--suite", str(root / "suite.toml"), "--data", str(root), "--out", str(tmp_path)]
    for model, said in (("nothing", "nothing"), ("open_clip:Nothing", "open_clip"), ("", "--list")):
        assert main(["benchmark", *([model] if model else []), *common]) == 2
        assert said in capsys.readouterr().err
