"""The laboratory and the probe as a person meets them: a picture, numbers, a sentence; one sentence for a mistake."""

from __future__ import annotations

import json
import math
import shutil

import pytest
import torch
from PIL import Image
from torch import Tensor

from equipoise.cli import main
from equipoise.data.rng import generator
from equipoise.evaluation.linear_probe import Labelled
from equipoise.workflows.probe import hold_out

SMALL = ("--batch-sizes", "4", "8", "--shuffle", "0", "50")


@pytest.fixture
def lab(tmp_path, capsys):
    """Calls `equipoise lab ...`; what it printed, and what it wrote under its name."""

    def call(name: str, *words: object) -> tuple[str, dict]:
        assert main(["lab", name, *map(str, words), "--out", str(tmp_path / "lab")]) == 0
        printed = capsys.readouterr().out
        record = json.loads((tmp_path / "lab" / f"{name}.json").read_text())
        assert printed.startswith(record["finding"])
        with Image.open(tmp_path / "lab" / f"{name}.png") as picture:
            assert min(picture.size) > 300
            assert len(set(picture.convert("L").resize((64, 64)).getdata())) > 8  # something is drawn
        return record["finding"], record

    return call


def mistake(capsys, *words: object, lines: int = 1) -> str:
    """The one sentence of a call that fails."""
    capsys.readouterr()
    assert main([*map(str, words)]) == 2
    reply = capsys.readouterr()
    assert reply.err.count("\n") == lines, reply.err
    return reply.err.removeprefix("equipoise: ").rstrip()


@pytest.mark.slow
def test_equilibrium(lab, finished_run):
    finding, record = lab("equilibrium", finished_run, *SMALL)
    assert finding.startswith("Alignment balances uniformity ")
    assert [one["batch_size"] for one in record["by_batch_size"]] == [4, 8]
    assert [one["shuffled"] for one in record["by_shuffled"]] == [0.0, 0.5]
    assert record["spread"] == pytest.approx(1 / 4)
    assert record["logit_scales"][0] == pytest.approx(0.04)
    assert record["logit_scales"][-1] == pytest.approx(1200)
    assert lab("equilibrium", finished_run, *SMALL)[1] == record  # the same seed, the same numbers
    assert lab("equilibrium", finished_run, *SMALL, "--seed", 1)[1]["by_batch_size"] != record["by_batch_size"]


def test_temperature(lab, finished_run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(finished_run, other)
    finding, record = lab("temperature", finished_run, other)
    assert [run["epoch_steps"] for run in record["runs"]] == [4, 4]  # 64 scenes in batches of 16
    assert record["runs"][0]["label"] == f"sphere from 14.3 ({finished_run.name})"
    assert "sphere from 14.3 (other): 14.2 (unit-free t 1.27) in the end, not converged." in finding
    assert record["runs"][0]["unit_free"] == pytest.approx(math.log(record["runs"][0]["final"] / 4))  # 16 dimensions
    logged = [json.loads(line) for line in (finished_run / "metrics.jsonl").read_text().splitlines()]
    assert [one["unit_free_t"] for one in logged if "loss" in one][-1] == pytest.approx(record["runs"][0]["unit_free"])


def test_landscape_leaves_the_model_folder_alone(lab, finished_run):
    before = (finished_run / "model.safetensors").read_bytes()
    finding, record = lab("landscape", finished_run, "--grid", 3, "--batch-size", 8)
    assert finding.startswith("Over this square the loss goes from ")
    assert torch.tensor(record["losses"]).shape == (2, 3, 3)
    assert (finished_run / "model.safetensors").read_bytes() == before


def test_similarities_in_and_out_of_domain(lab, finished_run):
    finding, record = lab("similarities", finished_run, "--other", "clip-scenes", "--pairs", 12)
    assert list(record["distributions"]) == ["In domain (its own data, test)", "Out of domain (clip-scenes, test)"]
    assert record["distributions"]["In domain (its own data, test)"]["spreads"]["negative"]["total"] == 12 * 11
    assert "of other texts are closer to an image than its own" in finding


def test_cost(lab):
    finding, record = lab("cost", "demo", "--class-tokens", 4, "--batch-size", 1)
    image, text = record["towers"]["image"], record["towers"]["text"]
    assert [cost["tokens"] for cost in (*image, *text)] == [17, 20, 64, 67]
    assert all(cost["measured_macs"] == cost["estimated_macs"] for cost in (*image, *text))
    assert finding.startswith("4 class tokens instead of 1 add ")


def test_tokens(lab, finished_run, tmp_path):
    product = tmp_path / "product"
    shutil.copytree(finished_run, product)
    config = (product / "config.toml").read_text().replace('name = "sphere"', 'name = "product_sphere"\nn = 4\nm = 4')
    (product / "config.toml").write_text(config)
    for task in ("zero_shot", "retrieval"):
        finding, record = lab("tokens", product, "--task", task, "--draws", 3, "--no-verify")
        assert [(one["tokens"], len(one["accuracies"])) for one in record["subsets"]] == [(1, 3), (2, 3), (4, 1)]
        assert "with all 4 tokens" in finding


def test_mistakes_of_the_laboratory_are_one_sentence(finished_run, tmp_path, capsys):
    out = ("--out", tmp_path / "lab")
    for name in ("equilibrium", "landscape", "similarities", "tokens"):
        assert mistake(capsys, "lab", name, tmp_path, *out) == (
            f"no model in {tmp_path}: a model folder holds model.safetensors and config.toml"
        )
    assert mistake(capsys, "lab", "temperature", tmp_path, *out).startswith(f"no metrics in {tmp_path}: a run's folder")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "temperature": 2.0}\n')
    assert "has no config.toml" in mistake(capsys, "lab", "temperature", tmp_path, *out)
    assert "has a single sub-sphere" in mistake(capsys, "lab", "tokens", finished_run, *out)
    assert "1,024 pairs cannot be drawn from data of 64" in mistake(capsys, "lab", "equilibrium", finished_run, *out)
    assert "but starts at 0.01" in mistake(capsys, "lab", "equilibrium", finished_run, "--highest", 0, *out)
    assert "has no middle" in mistake(capsys, "lab", "landscape", finished_run, "--grid", 4, *out)
    assert "two different ones above 0" in mistake(capsys, "lab", "landscape", finished_run, "--scales", 3, 3, *out)
    assert "is no plain transformer of ours" in mistake(capsys, "lab", "cost", "features", *out)
    assert not (tmp_path / "lab").exists()


@pytest.mark.slow
def test_probe_of_scenes(finished_run, tmp_path, capsys, tiny_settings):
    data = ("demo", *(word for one in (*tiny_settings, "data.train_size=200") for word in ("--set", one)))
    protocols = (((), "lbfgs"), (("--sgd",), "sgd"), (("--protocol", "sgd-sweep"), "sgd-sweep"))
    for further, name in protocols:
        assert main(["probe", str(finished_run), *data, *further, "--out", str(tmp_path)]) == 0
        assert "16 features (class tokens); " in capsys.readouterr().out
        record = json.loads((tmp_path / f"linear_probe_{name}.json").read_text())
        assert record["task"] == "linear_probe"
        assert 0 <= record["metrics"]["lp_acc1"] <= 1
        assert record["equipoise"]["chance"]["lp_acc1"] == 1 / 8
        assert (record["equipoise"]["C"] is None) == (name != "lbfgs")
        assert ("learning_rate" in record["equipoise"]) == (name == "sgd-sweep")
        assert record["equipoise"]["records"][0] > 50


def test_probe_reads_class_folders(finished_run, tmp_path, capsys):
    """Red and blue pictures: the probe tells them apart, and the mistakes one can make are told in a sentence."""
    chance = generator(0, "pictures")
    for split in ("train", "test"):
        for place, name in ((0, "red"), (2, "blue")):
            folder = tmp_path / split / name
            folder.mkdir(parents=True)
            for number in range(8):
                pixels: Tensor = torch.randint(0, 60, (32, 32, 3), generator=chance, dtype=torch.uint8)
                pixels[..., place] += 180
                Image.fromarray(pixels.numpy()).save(folder / f"{number}.png")
    train, test = tmp_path / "train", tmp_path / "test"
    assert main(["probe", str(finished_run), str(train), "--test", str(test)]) == 0
    assert "accuracy              │ 100.0%" in capsys.readouterr().out
    words = ("probe", str(finished_run), str(train), "--test", str(test))
    assert main([*words, "--protocol", "knn", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"]["knn_acc1"] == 1
    assert found["neighbours"] <= 14
    assert main([*words, "--shots", "1", "4", "--draws", "2", "--out", str(tmp_path / "shots")]) == 0
    record = json.loads((tmp_path / "shots" / "few_shot.json").read_text())
    assert [one["shots"] for one in record["curve"]] == [1, 4]
    assert record["curve"][1]["mean"] == 1
    assert 0 <= record["zero_shot"] <= 1
    assert (tmp_path / "shots" / "few_shot.png").stat().st_size > 1000
    assert '"blue" has 7' in mistake(capsys, *words, "--shots", 8, lines=3)
    assert "leave out --protocol" in mistake(capsys, *words, "--shots", 8, "--protocol", "knn")
    assert "two protocols" in mistake(capsys, *words, "--sgd", "--protocol", "knn")
    assert "name the files to test on with --test" in mistake(capsys, "probe", finished_run, train)
    assert "--test belongs to files" in mistake(capsys, "probe", finished_run, "demo", "--test", test)
    assert "no model in" in mistake(capsys, "probe", tmp_path, train, "--test", test)
    for split in ("train", "test"):
        shutil.rmtree(tmp_path / split / "blue")
    assert "all training records are of one class" in mistake(capsys, "probe", finished_run, train, "--test", test)
    (tmp_path / "pairs.csv").write_text(f"filepath,title\n{train / 'red' / '0.png'},a red picture\n")
    assert "has no classes; give class folders" in mistake(
        capsys, "probe", finished_run, tmp_path / "pairs.csv", "--test", tmp_path / "pairs.csv", lines=2
    )  # the first says which columns were taken


def test_a_tenth_of_each_class_is_held_out():
    known = Labelled(torch.arange(32.0)[:, None], torch.tensor([0] * 20 + [1] * 10 + [2] * 2))
    kept, away = hold_out(known, 0.1, seed=0)
    assert away.classes.tolist() == [0, 0, 1, 2]
    assert sorted(torch.cat([kept.features, away.features])[:, 0].tolist()) == list(range(32))
