"""benchmarks/rerank.py: one candidate is points alone, any k is the evaluation's, a table and a picture."""

from __future__ import annotations

from pathlib import Path

import pytest
import rerank
import torch
from conftest import TINY_SETTINGS
from PIL import Image

from equipoise.config import dump, load_run
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.evaluation.evaluate import evaluate
from equipoise.models.folder import save_model
from equipoise.types import UserError
from equipoise.workflows import build_model
from equipoise.workflows.load import load_with_settings

SETTINGS = (*TINY_SETTINGS, "objective.fusion.layers=1", "objective.queue=64")


@pytest.fixture(scope="module")
def run(tokens: CaptionTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained TCL whose matching head is far from constant."""
    torch.manual_seed(1)
    loaded, folder = load_run("tcl-scenes", SETTINGS), tmp_path_factory.mktemp("tcl") / "model"
    model = build_model(loaded.run, tokens)
    torch.nn.init.normal_(model.heads["fusion"].match.weight)
    save_model(model, folder, dump(loaded.table), {})
    return folder


def test_every_k_is_what_the_evaluation_gives(run: Path, tmp_path: Path, capsys):
    found = rerank.main([str(run), "--k", "16", "1", "4", "--out", str(tmp_path / "there" / "k.png")])
    assert (found.images, found.texts) == (16, 16)
    assert list(found.by_k) == [1, 4, 16]
    assert {key: found.by_k[1][key] for key in found.by_points} == found.by_points
    model, loaded = load_with_settings(run, torch.device("cpu"))
    source = load_run("tcl-scenes", SETTINGS).run.data.build("test")
    for k in (4, 16):
        settings = load_run("tcl-scenes", (*SETTINGS, f"evaluation.rerank={k}")).run.evaluation
        expected = evaluate(model, source, settings)["two_stage"].metrics
        assert found.by_k[k]["pairs_scored"] == expected["pairs_scored"]
        assert {key: found.by_k[k][key] for key in found.by_points} == {key: expected[key] for key in found.by_points}
    assert found.by_k[16]["pairs_scored"] == 256
    assert loaded.run.evaluation.rerank == 0
    out = capsys.readouterr().out
    assert "| 16 | " in out
    assert "| 256 |" in out
    with Image.open(tmp_path / "there" / "k.png") as picture:
        assert picture.width > picture.height


def test_what_cannot_be_judged_is_told(run: Path, finished_run: Path, tmp_path: Path):
    with pytest.raises(UserError, match="there are 16 images"):
        rerank.main([str(run), "--k", "17", "--out", str(tmp_path / "k.png")])
    with pytest.raises(UserError, match="no matching head"):
        rerank.main([str(finished_run), "--k", "2", "--out", str(tmp_path / "k.png")])
    with pytest.raises(SystemExit):
        rerank.main([str(run), "--k", "0", "--out", str(tmp_path / "k.png")])
