"""`equipoise compare`: what differs, what is best, one page that works from the disk."""

from __future__ import annotations

import io
import json
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from equipoise.analysis.run_comparison import RunComparison, StoredRun
from equipoise.cli import main
from equipoise.io.digests import renew_digest
from equipoise.workflows.compare import compare_runs


def reply(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["compare", *map(str, words)])
    return code, out.getvalue(), err.getvalue()


def changed(run: Path, folder: Path, old: str, new: str, better: bool = False) -> Path:
    """A copy of a run with other settings and, where asked, better numbers."""
    shutil.copytree(run, folder)
    config = folder / "config.toml"
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new, 1))
    renew_digest(folder, "config.toml")
    if better:
        metrics = json.loads((folder / "metrics.json").read_text())
        metrics["retrieval/text_to_image_R@1"] = 0.9999
        (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder


def test_settings_metrics_and_the_best(finished_run: Path, tmp_path: Path) -> None:
    other = changed(finished_run, tmp_path / "other", "learning_rate = ", "learning_rate = 1", better=True)
    code, out, _ = reply(finished_run, other, "--out", tmp_path / "compare.html", "--json")
    found = json.loads(out)
    assert code == 0
    assert list(found["settings"]) == ["training.learning_rate"]
    mine, theirs = found["settings"]["training.learning_rate"]
    assert mine != theirs
    row = found["metrics"]["retrieval/text_to_image_R@1"]
    assert row["best"] == [1]
    assert row["values"][1] == 0.9999
    assert found["metrics"]["retrieval/image_to_text_R@1"]["best"] == []  # the same in both
    assert found["metrics"]["geometry/modality_gap"]["best"] == []  # describes, and does not judge
    assert found["warning"] == ""
    assert "retrieval/text_to_image_queries" not in found["metrics"]
    code, out, _ = reply(finished_run, other, "--out", tmp_path / "again.html")
    assert "100.0% *" in out
    assert "learning_rate" in out


def test_the_page_needs_nothing_else(finished_run: Path, tmp_path: Path) -> None:
    other = changed(finished_run, tmp_path / "<other>", "seed = 0", "seed = 1", better=True)
    compare_runs([finished_run, other], tmp_path / "compare.html")
    page = (tmp_path / "compare.html").read_text()
    assert page.count("<svg") >= 3
    assert "&lt;other&gt;" in page
    assert "<other>" not in page
    assert page.count("★") >= 2  # the legend and a best
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)


def run_of(seed: int, rate: float, accuracy: float | None, name: str = "run") -> StoredRun:
    settings = {"name": f"{name}-{seed}", "seed": seed, "training": {"learning_rate": rate}}
    return StoredRun(f"{name}-{seed}-{rate}", settings, {} if accuracy is None else {"subsets/mean_accuracy": accuracy})


def test_runs_that_differ_in_their_seed_alone_are_summed_up() -> None:
    """Two groups of two and one of a single run, in no order; one that is not finished counts in none."""
    given = [(0, 1e-3, 0.8), (0, 1e-2, 0.5), (1, 1e-3, 0.9), (2, 1e-3, None), (0, 1e-1, 0.1), (3, 1e-2, 0.6)]
    found = RunComparison(tuple(run_of(*one) for one in given))
    assert found.groups == [(0, 2), (1, 5)]
    (row,) = found.over_seeds
    assert row.values[0] == pytest.approx((0.85, 0.1 / 2**0.5))
    assert [row.shown(0), row.shown(1)] == ["85.0 ± 7.1%", "55.0 ± 7.1%"]
    told = found.numbers()["seeds"]
    assert [one["runs"] for one in told] == [["run-0-0.001", "run-1-0.001"], ["run-0-0.01", "run-3-0.01"]]
    assert told[1]["metrics"]["subsets/mean_accuracy"] == pytest.approx((0.55, 0.1 / 2**0.5))
    same = RunComparison((run_of(0, 1e-3, 0.8), run_of(0, 1e-3, 0.8, "again")))
    assert same.groups == []


def test_the_page_has_mean_and_deviation_over_seeds(finished_run: Path, tmp_path: Path) -> None:
    other = changed(finished_run, tmp_path / "other", "seed = 0", "seed = 1", better=True)
    code, out, _ = reply(finished_run, other, "--out", tmp_path / "compare.html")
    assert code == 0
    assert "exp(t) at the end" in out
    own = json.loads((finished_run / "metrics.json").read_text())["retrieval/text_to_image_R@1"]
    mean, deviation = (own + 0.9999) / 2, abs(0.9999 - own) / 2**0.5
    shown = f"{100 * mean:.1f} ± {100 * deviation:.1f}%"
    assert shown in out
    page = (tmp_path / "compare.html").read_text()
    assert "<h2>Over seeds</h2>" in page
    assert shown in page
    elsewhere = changed(finished_run, tmp_path / "rate", "learning_rate = ", "learning_rate = 1")
    _, out, _ = reply(finished_run, elsewhere, "--out", tmp_path / "compare.html")
    assert "over seeds" not in out
    assert "Over seeds" not in (tmp_path / "compare.html").read_text()


def test_a_logit_scale_is_no_share() -> None:
    found = RunComparison(tuple(StoredRun(str(seed), {"seed": seed}, {"logit_scale/final": 3.25}) for seed in (0, 1)))
    assert found.rows[0].shown(0) == "3.250"
    assert found.over_seeds[0].shown(0) == "3.250 ± 0.000"


def test_runs_tested_on_different_data_are_said_and_no_best_is_marked(finished_run: Path, tmp_path: Path) -> None:
    other = changed(finished_run, tmp_path / "other", "test_size = 16", "test_size = 17", better=True)
    code, out, _ = reply(finished_run, other, "--out", tmp_path / "compare.html")
    assert code == 0
    assert "different data (data.test_size)" in " ".join(out.split())
    assert "%" in out
    assert "% *" not in out
    assert "different data" in (tmp_path / "compare.html").read_text()


def test_noise_of_the_training_data_leaves_the_test_data_alone(finished_run: Path, tmp_path: Path) -> None:
    other = changed(finished_run, tmp_path / "other", "shuffled = 0.2", "shuffled = 0.3", better=True)
    found = compare_runs([finished_run, other], tmp_path / "compare.html")
    assert list(found.settings) == ["data.noise.shuffled"]
    assert found.warning == ""


def test_three_runs_and_one_that_is_not_finished() -> None:
    same = {"training": {"steps": 2, "ema": 0.0}, "data": {"name": "scenes"}}
    runs = (
        StoredRun("a", same, {"retrieval/rsum": 3.0, "zero_shot/acc1": 0.5}),
        StoredRun("b", {**same, "training": {"steps": 4, "ema": 0.0}}, {"retrieval/rsum": 3.0, "zero_shot/acc1": 0.25}),
        StoredRun("c", {**same, "training": {"steps": 4, "ema": 0.9}}),
    )
    found = RunComparison(runs)
    assert found.settings == {"training.steps": (2, 4, 4), "training.ema": (0.0, 0.0, 0.9)}
    rows = {row.name: row for row in found.rows}
    assert rows["retrieval/rsum"].values == (3.0, 3.0, None)
    assert rows["retrieval/rsum"].best == ()
    assert rows["zero_shot/acc1"].best == (0,)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("tiny",), "1 run cannot be compared"),
        (("tiny", "tiny"), "named twice"),
        (("tiny", "tinny"), "did you mean tiny?"),
        (("tiny", "empty"), "holds no run"),
    ],
)
def test_a_mistake_is_one_sentence(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "tiny").symlink_to(finished_run)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    code, out, err = reply(*names)
    assert (code, out) == (2, "")
    assert sentence in err
    assert not (tmp_path / "compare.html").exists()
