"""An audit from the command line to its files, on scenes whose noise is known, on features and on shards."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from equipoise.cli import main


@pytest.fixture(scope="module")
def scenes_audit(tmp_path_factory, tiny_settings) -> tuple[Path, list[str]]:
    """A finished audit of 64 scenes, and the words that made it."""
    folder = tmp_path_factory.mktemp("audit") / "scenes"
    noise = ("data.noise.shuffled=0.3", "data.noise.near_duplicates=0.1", "training.batch_size=8")
    changes = [word for setting in (*tiny_settings, *noise) for word in ("--set", setting)]
    words = ["audit", "demo", *changes, "--neighbours", "5", "--out", str(folder)]
    assert main(words) == 0
    return folder, words


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_pair_is_judged_once_the_most_suspicious_first(scenes_audit):
    folder, _ = scenes_audit
    judged = rows(folder / "pairs.csv")
    assert len(judged) == 64 * 5
    assert len({row["key"] for row in judged}) == 64
    evidence = [float(row["record_log_ratio"]) for row in judged]
    assert evidence == sorted(evidence)
    assert all(0 <= float(row["probability_right"]) <= 1 for row in judged)


def test_what_the_data_knows_of_its_noise_is_measured(scenes_audit):
    folder, _ = scenes_audit
    found = json.loads((folder / "audit.json").read_text())
    assert len(found["judges"]) == 2
    assert found["truth"]["true_noise"] == pytest.approx(0.3, abs=0.2)
    assert 0 <= found["truth"]["auroc_of_records"] <= 1
    assert "precision_of_duplicates" in found["truth"]
    assert found["interval"][0] <= found["noise"] <= found["interval"][1]


def test_pictures_and_neighbours(scenes_audit):
    folder, _ = scenes_audit
    assert {"wrong.png", "duplicates.png"} <= {path.name for path in folder.iterdir()}
    kinds = [row["kind"] for row in rows(folder / "neighbours.csv")]
    assert kinds[-5:] == ["fits"] * 5
    assert 0 < len(kinds[:-5]) <= 5
    assert set(kinds[:-5]) <= {"copy", "near copy"}
    assert all(row["key"] != row["other_key"] for row in rows(folder / "neighbours.csv"))


def test_no_judge_saw_what_it_judges(scenes_audit, tiny):
    from equipoise.workflows.audit.folds import HeldOutData, folds

    parts = folds(64, 3, seed=0)
    assert sorted(number for part in parts for number in part) == list(range(64))
    source = HeldOutData(tiny.run, parts[1])
    seen, judged = ({built.pair(i).key for i in range(len(built))} for built in map(source.build, ("train", "test")))
    assert len(seen) + len(judged) == 64
    assert not seen & judged


def test_the_same_again_trains_nothing_and_finds_the_same(scenes_audit, capsys):
    folder, words = scenes_audit
    before = (folder / "pairs.csv").read_bytes()
    assert main(words) == 0
    assert "Training a judge" not in capsys.readouterr().out
    assert (folder / "pairs.csv").read_bytes() == before


@pytest.mark.slow
def test_other_folds_have_judges_of_their_own(scenes_audit, tmp_path, capsys):
    folder = shutil.copytree(scenes_audit[0], tmp_path / "scenes")  # the shared audit stays as it was
    assert main([*scenes_audit[1][:-1], str(folder), "--seed", "7"]) == 0
    assert capsys.readouterr().out.count("Training a judge") == 2
    names = {path.name for path in folder.glob("fold-*")}
    assert names == {f"fold-{number}-of-2-seed-{seed}" for number in (1, 2) for seed in (0, 7)}


def test_other_settings_are_refused(scenes_audit, capsys):
    _, words = scenes_audit
    assert main([*words, "--set", "seed=7"]) == 2
    assert "seed is 0 there and 7 here" in capsys.readouterr().err


def test_a_model_that_is_given_judges_all(scenes_audit, finished_run, tmp_path, tiny_settings, capsys):
    changes = [word for setting in tiny_settings for word in ("--set", setting)]
    assert main(["audit", "demo", *changes, "--model", str(finished_run), "--out", str(tmp_path / "a")]) == 0
    assert not list((tmp_path / "a").glob("fold-*"))
    assert "Of 320 pairs" in capsys.readouterr().out


def test_features_without_captions(tmp_path, capsys):
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(60, 6))
    arrays = {"image": shared + rng.normal(size=(60, 6)) / 4, "text": shared + rng.normal(size=(60, 6)) / 4}
    arrays["image"][50] = arrays["image"][7]
    np.savez(tmp_path / "f.npz", **arrays)
    settings = {
        "data.train": f'"{tmp_path / "f.npz"}"',
        "data.validation": f'"{tmp_path / "f.npz"}"',
        "image.width": 6,
        "text.width": 6,
        "space.dim": 6,
        "training.steps": 5,
        "training.batch_size": 10,
        "training.warmup_steps": 1,
    }
    changes = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    assert main(["audit", "features", *changes, "--out", str(tmp_path / "a")]) == 0
    assert rows(tmp_path / "a" / "pairs.csv")[0]["caption"] == "text 0"
    found = rows(tmp_path / "a" / "neighbours.csv")
    assert (found[0]["kind"], found[0]["key"], found[0]["other_key"]) == ("copy", "f-7", "f-50")
    assert {row["kind"] for row in found} == {"copy", "near copy", "alike", "fits"}
    assert not list((tmp_path / "a").glob("*.png"))


@pytest.mark.slow
def test_shards_without_a_recipe(tmp_path, scenes):
    from equipoise.data.shard_writer import write_shards

    write_shards(scenes, tmp_path / "shards", 32, 64, lambda *_: None)
    settings = ("tokens.vocabulary=600", "preprocess.size=32", "image.width=16", "text.width=16", "space.dim=16")
    steps = ("training.steps=2", "training.batch_size=8")
    changes = [word for setting in (*settings, *steps) for word in ("--set", setting)]
    data = str(next((tmp_path / "shards").glob("*.tar")))
    assert main(["audit", data, *changes, "--neighbours", "0", "--out", str(tmp_path / "a")]) == 0
    assert len({row["key"] for row in rows(tmp_path / "a" / "pairs.csv")}) == 64


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--folds", "1"], "cannot be judged in 1 folds"),
        (["--folds", "33"], "64 pairs cannot be judged in 33 folds; choose from 2 to 32"),
        (["--neighbours", "-1"], "--neighbours is -1"),
        (["--model", "nowhere"], "no model in nowhere"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, capsys, tiny_settings, words, sentence):
    changes = [word for setting in tiny_settings for word in ("--set", setting)]
    assert main(["audit", "demo", *changes, *words, "--out", str(tmp_path / "a")]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err
