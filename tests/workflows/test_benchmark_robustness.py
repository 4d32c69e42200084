"""The table of robustness: a set, its shifts, baselines from models and from a file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from class_pictures import write_class_folders

from equipoise.cli import main
from equipoise.data.benchmark_sets import SETS
from equipoise.data.benchmark_sets.baseline_accuracies import read_accuracies
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
    assert "R² = 1.00 of 2 baselines" in (root / "out" / "benchmark.html").read_text()


def test_without_baselines_there_are_accuracies_alone(root: Path, finished_run: Path, capsys) -> None:
    words = ["benchmark", str(finished_run), "--suite", str(root / "suite.toml"), "--data", str(root), "--json"]
    assert main([*words, "--out", str(root / "out")]) == 0
    (found,) = json.loads(capsys.readouterr().out)["robustness"]
    assert found["lines"] == found["effective"] == {}
    assert "mean of shifts" in (root / "out" / "benchmark.html").read_text()


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
