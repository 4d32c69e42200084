"""Karpathy's file through the commands: its splits are those that are trained on, validated and tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from captioned_pictures import write_captioned
from test_own_files import WORDS

from equipoise.cli import main
from equipoise.config import load_stored
from equipoise.finetuning.comparison import DidNotHelp

COUNT = 48  # of six pictures three are of train, one of restval, one of val, one of test
TURNS = ("train", "train", "train", "restval", "val", "test")
EACH = COUNT // len(TURNS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_captioned(tmp_path_factory.mktemp("karpathy"), COUNT)
    coco = json.loads((folder / "coco.json").read_text())
    images = [
        {
            "filepath": "images", "filename": image["file_name"], "split": TURNS[image["id"] % len(TURNS)],
            "sentences": [{"raw": one["caption"]} for one in coco["annotations"] if one["image_id"] == image["id"]],
        }
        for image in coco["images"]
    ]  # fmt: skip
    (folder / "dataset_coco.json").write_text(json.dumps({"images": images, "dataset": "coco"}))
    return folder / "dataset_coco.json"


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("own") / "run"
    assert main(["train", str(data), "--out", str(out), "--epochs", "1", *WORDS]) == 0
    return out


def numbers(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) in (0, DidNotHelp.status)
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_training_goes_by_the_splits(run: Path) -> None:
    source = load_stored(run / "config.toml").run.data
    assert [len(source.build(split)) for split in ("train", "validation", "test")] == [4 * EACH, EACH, EACH]
    found = json.loads((run / "results" / "retrieval.json").read_text())["metrics"]
    assert (found["image_to_text_queries"], found["text_to_image_queries"]) == (EACH, 2 * EACH)


@pytest.mark.parametrize(("words", "count"), [((), EACH), (("--split", "train"), 4 * EACH)])
def test_eval_takes_the_test_unless_another_is_named(words: tuple[str, ...], count: int, data, run, capsys) -> None:
    found = numbers(capsys, "eval", run, data, *words)["results"]["retrieval"]["metrics"]
    assert found["image_to_text_queries"] == count


@pytest.mark.parametrize(("words", "count"), [((), COUNT), (("--split", "validation"), EACH)])
def test_embed_takes_all_unless_a_split_is_named(words, count, data, run, tmp_path: Path, capsys) -> None:
    assert numbers(capsys, "embed", run, data, "--out", tmp_path / "out", *words)["records"] == count


@pytest.mark.slow
def test_check_zeroshot_audit_and_finetune(data: Path, run: Path, tmp_path: Path, capsys) -> None:
    assert numbers(capsys, "data", "check", data, "--out", tmp_path / "check")["records"] == COUNT
    assert len(numbers(capsys, "zeroshot", run, data, "--classes", "red,green")["pictures"]) == COUNT
    numbers(capsys, "audit", data, "--model", run, "--out", tmp_path / "audit")
    assert len((tmp_path / "audit" / "pairs.csv").read_text().splitlines()) == 2 * 4 * EACH + 1
    numbers(capsys, "finetune", run, data, "--epochs", 1, "--out", tmp_path / "tuned", "--set", "training.device=cpu")
    told = json.loads((tmp_path / "tuned" / "tuning.json").read_text())["numbers"]
    assert (
        told["validation"]["start"]["image_to_text_queries"] == told["test"]["start"]["image_to_text_queries"] == EACH
    )


def test_a_split_of_files_that_have_none_is_one_sentence(data: Path, run: Path, tmp_path: Path, capsys) -> None:
    words = ["embed", str(run), str(data.with_name("pairs.csv")), "--out", str(tmp_path / "out"), "--split", "test"]
    assert main(words) == 2
    assert "has none; leave it out" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
