"""A file of what is relevant among the test data: looked at before a run trains, and used when it is tested alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equipoise.config import load_run
from equipoise.types import UserError
from equipoise.workflows import run_recipe


def relevance(settings: tuple[str, ...], folder: Path, split: str) -> str:
    """A file that names each caption's own image, of a split."""
    source = load_run("demo", settings).run.data.build(split)
    keys = [source.pair(index).key for index in range(len(source))]
    file = folder / f"{split}.csv"
    file.write_text("image_id,caption_id\n" + "".join(f"{key},{key}#0\n" for key in keys))
    return str(file)


def test_a_run_is_validated_without_it_and_tested_by_it(tiny_settings, tmp_path):
    file = relevance(tiny_settings, tmp_path, "test")
    assert run_recipe("demo", (*tiny_settings, f"evaluation.relevance={file}"), tmp_path / "run", command="") == 0
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert found["retrieval/text_to_image_mAP@R"] == found["retrieval/text_to_image_true_R@1"], "one is relevant"


@pytest.mark.parametrize("kind", ["missing", "of other data"])
def test_what_cannot_judge_the_test_data_is_refused_before_training(kind, tiny_settings, tmp_path):
    file, sentence = str(tmp_path / "none.csv"), "none.csv cannot be read"
    if kind == "of other data":
        file, sentence = relevance(tiny_settings, tmp_path, "validation"), "none of its .* pairs joins"
    with pytest.raises(UserError, match=sentence):
        run_recipe("demo", (*tiny_settings, f"evaluation.relevance={file}"), tmp_path / "run", command="")
    assert not list(tmp_path.glob("run/checkpoints/*"))
