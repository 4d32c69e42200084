"""Results as files and tables."""

import json

import pytest
from rich.console import Console

from equipoise.evaluation.metrics import percent
from equipoise.evaluation.results import metric, table, write_results
from equipoise.types import UserError

METRICS = {"image_to_text_R@1": 0.913, "text_to_image_R@5": 0.5, "image_to_text_true_R@1": 0.95, "rsum": 512.34}
EVALUATION = {"dataset": "scenes", "model": "vit-t8", "pretrained": "runs/demo", "task": "zeroshot_retrieval"}


def test_the_shape_is_clip_benchmarks(tmp_path):
    path = write_results(tmp_path / "new" / "r.json", **EVALUATION, metrics=METRICS, extras={"seed": 0})
    read = json.loads(path.read_text())
    assert list(read) == ["dataset", "model", "pretrained", "task", "metrics", "language", "equipoise"]
    assert read["metrics"] == METRICS | {"text_retrieval_recall@1": 0.913, "image_retrieval_recall@5": 0.5}
    assert read["language"] == "en"
    assert read["equipoise"] == {"seed": 0}
    assert [p.name for p in path.parent.iterdir()] == ["r.json"]


def test_what_cannot_be_written_is_named_and_leaves_the_old_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        write_results(tmp_path / "file" / "r.json", **EVALUATION, metrics=METRICS)
    path = write_results(tmp_path / "r.json", **EVALUATION, metrics=METRICS)
    before = path.read_text()
    with pytest.raises(ValueError, match="JSON"):
        write_results(path, **EVALUATION, metrics={"acc1": float("nan")})
    assert path.read_text() == before


def test_the_table_prints_value_beside_chance():
    console = Console(width=80)
    with console.capture() as capture:
        console.print(table(METRICS, {"image_to_text_R@1": 0.001}, title="scenes"))
    text = capture.get()
    row = next(line for line in text.splitlines() if "image → text  R@1" in line)
    assert "91.3%" in row
    assert "0.10%" in row
    assert "512.3" in text


def test_metrics_are_explained():
    assert metric("image_to_text_mAP@R").direction == "image → text"
    assert metric("text_to_image_queries").show(1000.0) == "1,000"
    assert metric("my_own").short == "my_own"
    assert [percent(x) for x in (1, 0.5, 0.01, 0.0012, 0.00002, 0)] == [
        "100.0%",
        "50.0%",
        "1.0%",
        "0.12%",
        "0.002%",
        "0.0%",
    ]
