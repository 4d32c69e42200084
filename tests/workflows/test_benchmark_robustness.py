"""The table of robustness: a set, its shifts, baselines from models and from a file."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from class_pictures import write_class_folders

from equipoise.cli import main
from equipoise.data.benchmark_sets import SETS
from equipoise.data.benchmark_sets.baseline_accuracies import read_accuracies
from equipoise.data.benchmark_sets.class_parts import class_parts
from equipoise.data.benchmark_sets.class_set import ClassSet
from equipoise.data.benchmark_sets.class_words import class_words
from equipoise.types import UserError
from equipoise.workflows.benchmark.suite import read_suite

SUITE = """
[colours]
task = "zero-shot"
data = "colours"

[dark]
task = "zero-shot"
data = "dark"
shift_of = "colours"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_class_folders(tmp_path / "colours", each=4)
    write_class_folders(tmp_path / "dark", each=3)
    (tmp_path / "suite.toml").write_text(SUITE)
    (tmp_path / "known.csv").write_text(
        "model,set,accuracy\na,colours,0.5\na,dark,0.4\nb,colours,0.8\nb,dark,0.6\nc,other,0.1\n"
    )
    return tmp_path


def test_effective_robustness_is_above_the_line_of_a_files_baselines(root: Path, finished_run: Path, capsys) -> None:
    words = ["benchmark", str(finished_run), "--suite", str(root / "suite.toml"), "--data", str(root), "--json"]
    words += ["--out", str(root / "out"), "--baseline", str(root / "known.csv")]
    assert main(words) == 0
    said = capsys.readouterr()
    (found,) = json.loads(said.out)["robustness"]
    assert found == json.loads((root / "out" / "robustness.json").read_text())[0]
    label = finished_run.name
    own = found["accuracies"][label]
    cells = {cell["dataset"]: cell["metrics"]["acc1"] for cell in json.loads(said.out)["cells"]}
    assert own == cells
    slope = (math.log(0.6 / 0.4) - math.log(0.4 / 0.6)) / math.log(0.8 / 0.2)
    pictures = json.loads(said.out)["cells"][0]["equipoise"]["pictures"]
    kept = min(max(own["colours"], 0.5 / pictures), 1 - 0.5 / pictures)
    expected = 1 / (1 + math.exp(-slope * math.log(kept / (1 - kept)) - math.log(0.4 / 0.6)))
    assert found["effective"][label]["dark"] == pytest.approx(own["dark"] - expected)
    assert found["lines"]["dark"]["models"] == 2  # "c" has no accuracy on either
    page = (root / "out" / "benchmark.html").read_text()
    assert "R² = 1.00 of 2 baselines" in page
    assert 'aria-label="Accuracies: dark over colours"' in page


def test_without_baselines_there_are_accuracies_alone(root: Path, finished_run: Path, capsys) -> None:
    words = ["benchmark", str(finished_run), "--suite", str(root / "suite.toml"), "--data", str(root), "--json"]
    assert main([*words, "--out", str(root / "out")]) == 0
    (found,) = json.loads(capsys.readouterr().out)["robustness"]
    assert found["lines"] == found["effective"] == {}
    page = (root / "out" / "benchmark.html").read_text()
    assert "mean of shifts" in page
    assert "Accuracies: " not in page  # there is no line to hold models against


PART = SUITE.replace('data = "dark"', 'data = "part"')


def without_blue(root: Path) -> Path:
    """A shift with two of the three classes."""
    write_class_folders(root / "part", each=3)
    shutil.rmtree(root / "part" / "dark_blue")
    (root / "suite.toml").write_text(PART)
    return root


def test_a_shift_with_fewer_classes_is_held_against_the_accuracy_among_these(
    root: Path, finished_run: Path, capsys
) -> None:
    """As ImageNet-A and -R are; the oracle is the whole set without the third class, as a set of its own."""
    without_blue(root)
    words = ["benchmark", str(finished_run), "--suite", str(root / "suite.toml"), "--data", str(root), "--json"]
    (root / "known.csv").write_text(
        "model,set,accuracy\na,colours:dark,0.5\na,dark,0.4\nb,colours:dark,0.8\nb,dark,0.6\nc,colours,0.9\n"
    )
    assert main([*words, "--out", str(root / "out"), "--baseline", str(root / "known.csv")]) == 0
    said = json.loads(capsys.readouterr().out)
    (found,) = said["robustness"]
    assert found["held_against"] == {"dark": "colours:dark"}
    (whole,) = [cell for cell in said["cells"] if cell["dataset"] == "colours"]
    shutil.rmtree(root / "colours" / "dark_blue")
    assert main([*words, "--only", "colours", "--out", str(root / "again")]) == 0
    (alone,) = json.loads(capsys.readouterr().out)["cells"]
    assert whole["metrics"]["acc1:dark"] == alone["metrics"]["acc1"]
    assert whole["equipoise"]["pictures:dark"] == alone["equipoise"]["pictures"] == 8
    label = finished_run.name
    assert found["accuracies"][label]["colours:dark"] == alone["metrics"]["acc1"]
    slope = (math.log(0.6 / 0.4) - math.log(0.4 / 0.6)) / math.log(0.8 / 0.2)
    kept = min(max(alone["metrics"]["acc1"], 0.5 / 8), 1 - 0.5 / 8)
    expected = 1 / (1 + math.exp(-slope * math.log(kept / (1 - kept)) - math.log(0.4 / 0.6)))
    assert found["effective"][label]["dark"] == pytest.approx(found["accuracies"][label]["dark"] - expected)
    page = (root / "out" / "benchmark.html").read_text()
    assert 'aria-label="Accuracies: dark over colours"' in page
    assert "among the classes of dark" in page


def test_baselines_without_that_accuracy_are_told_its_name(root: Path, finished_run: Path, capsys) -> None:
    without_blue(root)
    words = ["benchmark", str(finished_run), "--suite", str(root / "suite.toml"), "--data", str(root)]
    assert main([*words, "--out", str(root / "out"), "--baseline", str(root / "known.csv")]) == 2
    assert "colours:dark is the accuracy on colours among the classes of dark" in capsys.readouterr().err


def test_parts_of_imagenet_go_by_wnids_though_two_classes_have_one_name(tmp_path: Path) -> None:
    sets = {}
    for name in ("imagenet1k", "imagenet-r", "imagenetv2"):
        words = class_words(SETS[name].classes)
        sets[name] = ClassSet([None] * len(words.names), tuple(range(len(words.names))), words.names, words.templates)
    specs = {name: SETS[name] for name in sets}
    parts = class_parts(specs, sets)
    assert set(parts) == {"imagenet1k"}
    assert set(parts["imagenet1k"]) == {"imagenet-r"}  # V2 has all classes
    numbers, whole = parts["imagenet1k"]["imagenet-r"], class_words("imagenet1k")
    assert [whole.wnids[number] for number in numbers] == list(class_words("imagenet-r").wnids)
    assert "missile" in sets["imagenet-r"].names
    assert whole.names.count("missile") == 2


@pytest.mark.parametrize(
    ("baseline", "said"),
    [("other", "none of the models"), ("{run}", "two baselines or more"), ("none.csv", "cannot be read")],
)
def test_mistakes_are_one_sentence(baseline: str, said: str, root: Path, finished_run: Path, capsys) -> None:
    words = ["benchmark", str(finished_run), "--suite", str(root / "suite.toml"), "--data", str(root)]
    words += ["--out", str(root / "out"), "--baseline", baseline.format(run=finished_run)]
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_baseline_without_a_shift_is_one_sentence(root: Path, finished_run: Path, capsys) -> None:
    words = ["benchmark", str(finished_run), "--suite", str(root / "suite.toml"), "--data", str(root)]
    words += ["--only", "colours", "--out", str(root / "out"), "--baseline", str(root / "known.csv")]
    assert main(words) == 2
    assert "shift_of" in capsys.readouterr().err


@pytest.mark.parametrize("of", ["nothing", "dark", "captions"])
def test_a_shift_of_nothing_is_one_sentence(of: str, root: Path) -> None:
    wrong = SUITE.replace('shift_of = "colours"', f'shift_of = "{of}"')
    (root / "suite.toml").write_text(wrong + "\n[captions]\ntask = 'retrieval'\ndata = 'x'\n")
    with pytest.raises(UserError, match=r"\[dark\]: shift_of"):
        read_suite(str(root / "suite.toml"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n", "columns"), ("model,set,accuracy\n", "no accuracy"), ("model,set,accuracy\na,b,76\n", "line 2"),
        ("model,set,accuracy\na,b,0.1\na,b,0.2\n", "already"), ("model,set,accuracy\na,b\n", "share"),
    ],
)  # fmt: skip
def test_wrong_files_of_accuracies_are_one_sentence(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(UserError, match=said):
        read_accuracies(tmp_path / "a.csv")


def test_imagenets_shifts_know_what_they_are_of() -> None:
    shifts = {name for name, spec in SETS.items() if spec.shift_of == "imagenet1k"}
    assert shifts == {"imagenetv2", "imagenet-a", "imagenet-r", "imagenet_sketch"}
