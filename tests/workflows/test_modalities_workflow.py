"""Named modalities from recipe to report: train, resume, evaluate, embed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.cli import main
from equipoise.config import load_run
from equipoise.data.modalities import ModalFiles
from equipoise.evaluation.metrics import percent
from equipoise.models.folder import read_tensors
from equipoise.models.modal_model import ModalModel
from equipoise.training.logging.metrics import read_metrics
from equipoise.workflows import load, run_recipe
from equipoise.workflows.train_model import train_run

SMALL = (
    "data.train_size=64", "data.validation_size=16", "data.test_size=24", "data.missing=0.2", "training.batch_size=16",
    "training.log_every=1", "training.evaluate_every=3", "training.loggers=[]",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modal") / "run"
    assert run_recipe("gmc-world", [*SMALL, "training.steps=6", "objective.m2_weight=0.2"], folder, "train") == 0
    return folder


def test_a_run_leaves_a_model_its_numbers_and_a_report(run: Path) -> None:
    records = read_metrics(run / "metrics.jsonl")
    assert all(np.isfinite(record["loss"]) for record in records if "loss" in record)
    assert any("loss/m2" in record for record in records)
    assert any("validation/mean_accuracy" in record for record in records)
    found = json.loads((run / "results" / "subsets.json").read_text())["metrics"]
    names = ["text", "audio", "video", "text+audio", "text+video", "audio+video", "text+audio+video"]
    assert all(0 <= found[f"{name}_accuracy"] <= 1 for name in names)
    assert all(f"{name}_{way}_accuracy" in found for name in names[:-1] for way in ("joint", "zeroed"))
    plain = np.mean([found[f"{name}_accuracy"] for name in names])
    assert found["mean_accuracy"] == pytest.approx(plain)
    page = (run / "report.html").read_text()
    assert "audio+video" in page
    assert "Map of the modalities" in page
    assert "Curve: Accuracy over subsets of modalities" in page
    assert "Curve: Recall among modalities" in page
    assert "Points of held-out samples in the space they share" in page
    best = max(names, key=lambda name: found[f"{name}_accuracy"])  # by codes, which is what the average is of
    told = f"with {best.replace('+', ' + ')}, {percent(found[f'{best}_accuracy'])}. Guessing"
    assert told in " ".join(page.split())
    assert f"| {percent(found['mean_accuracy'])} | 50.0% |" in (run / "table.md").read_text()
    assert "text_to_audio_R@1" in (run / "results" / "modal_retrieval.json").read_text()


def test_the_numbers_are_those_of_the_model_asked_by_hand(run: Path) -> None:
    """Accuracy of a subset against a loop over single samples."""
    model, source = load(run), load_run("gmc-world", SMALL).run.data.build("test")
    assert isinstance(model, ModalModel)
    right = 0
    for index in range(len(source)):
        parts = {name: source.parts[name].take([index]) for name in ("text", "video")}  # type: ignore[attr-defined]
        made = [model.encode({name: (part.values, part.mask)}) for name, part in parts.items()]
        right += int(model.predict((made[0] + made[1]) / 2).argmax()) == int(source.labels[index])  # type: ignore[attr-defined]
    found = json.loads((run / "results" / "subsets.json").read_text())["metrics"]
    assert found["text+video_accuracy"] == pytest.approx(right / len(source))


def test_a_run_that_was_stopped_goes_on_bit_for_bit(run: Path, tmp_path: Path) -> None:
    loaded = load_run("gmc-world", [*SMALL, "training.steps=6", "objective.m2_weight=0.2"])
    train_run(loaded, tmp_path / "run", until=3)
    model, _ = train_run(loaded, tmp_path / "run")
    whole = read_tensors(run / "model.safetensors")
    assert all(torch.equal(tensor, whole[name]) for name, tensor in model.state_dict().items())


def test_workers_make_the_same_batches(run: Path, tmp_path: Path) -> None:
    loaded = load_run("gmc-world", [*SMALL, "training.steps=6", "objective.m2_weight=0.2", "training.workers=1"])
    model, _ = train_run(loaded, tmp_path / "run")
    whole = read_tensors(run / "model.safetensors")
    assert all(torch.equal(tensor, whole[name]) for name, tensor in model.state_dict().items())


def test_micro_batches_give_the_same_gradients(run: Path, tmp_path: Path) -> None:
    loaded = load_run("gmc-world", [*SMALL, "training.steps=6", "objective.m2_weight=0.2", "training.micro_batch=8"])
    model, _ = train_run(loaded, tmp_path / "run")
    whole = read_tensors(run / "model.safetensors")
    assert all(torch.allclose(tensor, whole[name], atol=2e-4) for name, tensor in model.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        ("objective.name=supervised", "modalities.joint.name=mult", "modalities.joint.layers=1", "data.length=2"),
        ("objective.name=modal_pairs", "modalities.outputs=0", "training.best=modal_mean_recall"),
        ("data.classes=0", "modalities.outputs=1", "space.name=euclidean"),
        ("modalities.inputs.text.encoder.name=mlp", "modalities.inputs.audio.encoder.name=transformer"),
    ],
)
def test_other_objectives_labels_and_encoders_run(changed: tuple[str, ...], tmp_path: Path) -> None:
    assert run_recipe("gmc-world", [*SMALL, "training.steps=2", *changed], tmp_path / "run", "train") == 0
    assert isinstance(load(tmp_path / "run"), ModalModel)


@pytest.mark.slow
def test_two_modalities_called_image_and_text_train_by_clip(tmp_path: Path) -> None:
    """CLIP is the case of two modalities: its own objective reads them by their names."""
    recipe = tmp_path / "pair.toml"
    recipe.write_text("""
        name = "pair"
        [data]
        name = "modal_worlds"
        modalities = ["image", "text"]
        knows = [1.0, 1.0]
        private = [0.5, 0.5]
        noise = [0.5, 0.5]
        length = 0
        train_size = 64
        validation_size = 16
        test_size = 16
        [tokens]
        kind = "none"
        [modalities]
        name = "named"
        [modalities.inputs.image]
        width = 16
        [modalities.inputs.text]
        width = 16
        [space]
        dim = 16
        [training]
        steps = 2
        batch_size = 16
        best = "modal_mean_recall"
    """)
    numbers = []
    for objective in ("clip", "modal_pairs"):
        folder = tmp_path / objective
        assert run_recipe(str(recipe), [f"objective.name={objective}", "training.log_every=1"], folder, "train") == 0
        numbers.append([record["loss"] for record in read_metrics(folder / "metrics.jsonl") if "loss" in record])
    assert numbers[0] == pytest.approx(numbers[1])


def test_eval_and_embed_read_modalities(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run), "--out", str(tmp_path / "eval")]) == 0
    assert "zeroed" in capsys.readouterr().out
    again = json.loads((tmp_path / "eval" / "results" / "subsets.json").read_text())["metrics"]
    assert again == pytest.approx(json.loads((run / "results" / "subsets.json").read_text())["metrics"])
    settings = [word for one in SMALL[:4] for word in ("--set", one)]
    assert main(["embed", str(run), "gmc-world", *settings, "--out", str(tmp_path / "points")]) == 0
    source = ModalFiles(train=str(tmp_path / "points"), validation_share=0.0).build("train")
    assert (len(source), source.modalities) == (64, {"audio": 60, "text": 60, "video": 60})
    model, train = load(run), load_run("gmc-world", SMALL).run.data.build("train")
    assert isinstance(model, ModalModel)
    first = int(train.present("audio").nonzero()[0])  # type: ignore[attr-defined]
    part = train.parts["audio"].take([first])  # type: ignore[attr-defined]
    expected = model.encode({"audio": (part.values, part.mask)})[0]
    assert torch.allclose(source.parts["audio"].values[first], expected, atol=1e-5)
    assert torch.equal(source.present("audio"), train.present("audio"))  # type: ignore[attr-defined]


def test_commands_for_pictures_say_that_a_model_reads_modalities(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["embed", str(run), "demo", "--out", str(tmp_path / "a")], ["eval", str(run), "demo"]):
        assert main([*words, "--set", "data.test_size=4", "--set", "data.train_size=4"]) == 2
        assert "modalities" in capsys.readouterr().err
    assert main(["finetune", str(run), "demo", "--out", str(tmp_path / "b")]) == 2
    assert "fine-tuning is of images and texts" in capsys.readouterr().err
    assert main(["audit", "gmc-world", "--out", str(tmp_path / "c")]) == 2
    assert "give data of pairs" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_train_what_one_does(run: Path, tmp_path: Path, parallel: str) -> None:
    settings = [*SMALL, "training.steps=6", "objective.m2_weight=0.2", f"training.parallel={parallel}"]
    words = ["equipoise", "train", "gmc-world", "--out", str(tmp_path / "run")]
    words += [word for one in settings for word in ("--set", one)]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", *words]
    subprocess.run(launch, check=True, capture_output=True, timeout=600)
    alone, together = (
        [r["loss"] for r in read_metrics(f / "metrics.jsonl") if "loss" in r] for f in (run, tmp_path / "run")
    )
    assert together == pytest.approx(alone, rel=1e-5)
    assert "2 processes" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["supervised", "gmc_m2"])
def test_mult_reads_utterances_with_those_before_them(objective: str, tmp_path: Path) -> None:
    """The recipe mult-mosi, on noise in the layout of the file that it is for."""
    chance, given = np.random.default_rng(0), {}
    for split, count in (("train", 32), ("test", 12)):
        for name, width in (("text", 100), ("audio", 73), ("video", 100)):
            given[f"{split}_{name}"] = chance.normal(size=(count, width)).astype("f4")
        given[f"{split}_label"] = np.arange(count) % 2
        given[f"{split}_id"] = np.array([f"{split}{row // 4}_{row % 4}" for row in range(count)])
    np.savez(tmp_path / "samples.npz", **given)
    settings = [f"data.root={tmp_path / 'samples.npz'}", f"objective.name={objective}", "training.steps=1"]
    assert run_recipe("mult-mosi", [*settings, "training.batch_size=8"], tmp_path / "run", "train") == 0
    found = json.loads((tmp_path / "run" / "results" / "subsets.json").read_text())["metrics"]
    assert all(np.isfinite(value) for value in found.values())


@pytest.mark.slow
def test_sounds_and_texts_run_to_their_report(tmp_path: Path) -> None:
    sizes = ("train_size=16", "validation_size=8", "test_size=8")
    settings = [*(f"data.{size}" for size in sizes), "training.steps=2", "training.batch_size=8"]
    assert run_recipe("clap-tones", settings, tmp_path / "run", "train") == 0
    assert (tmp_path / "run" / "report.html").is_file()
