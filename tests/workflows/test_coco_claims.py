"""Claims with data of their own: rows of COCO's at the scale small, on real pictures with towers that are tiny."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from equipoise.claims import CLAIMS, coco, photos_mixup
from equipoise.claims.claim import GPU, SMALL, Claim, Row
from equipoise.claims.metric import METRICS
from equipoise.cli import main
from equipoise.config import load_run
from equipoise.types import UserError
from equipoise.workflows.claims import plan
from equipoise.workflows.claims.cell import cell_of
from equipoise.workflows.claims.make import make_cell
from equipoise.workflows.claims.run import run_claims

REAL = Path(os.environ.get("EQUIPOISE_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
SETS = ("coco_128", "flickr8k_96", "cifar10_train5k", "cifar10_test2k")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def write_towers(transformers: ModuleType, folder: Path) -> None:
    """Folders as `towers.py` writes them, of models that are tiny."""
    torch.manual_seed(0)
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    transformers.ResNetModel(config).save_pretrained(folder / "resnet50")
    run = load_run(coco.START.recipe, coco.START.settings).run
    colours = {"image_mean": run.preprocess.mean, "image_std": run.preprocess.std}
    (folder / "resnet50" / "preprocessor_config.json").write_text(json.dumps(colours))
    words = {token: number for number, token in enumerate([*SPECIAL, *LETTERS, *(f"##{one}" for one in LETTERS)])}
    text = folder / "all-mpnet-base-v2"
    transformers.MPNetModel(
        transformers.MPNetConfig(
            vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=64, pad_token_id=0,
        )
    ).save_pretrained(text)  # fmt: skip
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(text / "tokenizer.json"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, transformers: ModuleType) -> tuple[Path, dict[str, Path]]:
    """Where cells go, the start among them, and the folder of the data."""
    lacking = [name for name in SETS if not (REAL / name).is_dir()]
    if lacking:
        pytest.skip(f"{REAL} has no {', '.join(lacking)}: claims on COCO are NOT tested")
    data, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("claims")
    for name in SETS:
        (data / name).symlink_to(REAL / name)
    write_towers(transformers, data)
    (start,) = plan.starts(coco.CLAIMS.values(), SMALL, 3)
    assert make_cell(start, out, "cpu", "", {"data": data}) == ""
    return out, {"data": data}


def require_metrics(claims: dict[str, Claim], row: Row, found: dict[str, float]) -> None:
    """All that the rules of the claims ask of this row, and their tables show, was measured."""
    for claim in (one for one in claims.values() if row in one.rows):
        ruled = (*claim.parts, *claim.preconditions)
        asked = {rule.metric for rule in ruled if row.name in dict(rule.weights)} | {claim.metric}
        assert {name for name in asked if METRICS[name].of(found) is None} == set()
        assert METRICS[claim.chooses].of(found, "validation") is not None


@pytest.mark.slow
@pytest.mark.parametrize("row", dict.fromkeys(row for claim in coco.CLAIMS.values() for row in claim.rows),
                         ids=lambda row: f"{row.recipe} {row.name} {len(row.sweep)}")  # fmt: skip
def test_a_row_of_coco_is_fine_tuned_and_measured(row: Row, made: tuple[Path, dict[str, Path]]) -> None:
    out, folders = made
    (trial,) = plan.trials_of(row, SMALL)
    cell = cell_of(row, trial, 1, SMALL)
    if not cell.is_done(out):
        assert make_cell(cell, out, "cpu", "", folders) == ""
    told = cell.read(out)
    assert told
    require_metrics(coco.CLAIMS, row, told["found"])
    assert any("={data}" in text for text in told["settings"]), "a cell does not say where its data lay"


@pytest.mark.slow
def test_heads_of_features_are_fine_tuned_and_measured(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("train", 32), ("validation", 8), ("test", 8)):
        arrays = {"image": rng.normal(size=(count, 1280)), "text": rng.normal(size=(count, 5, 384))}
        np.savez(tmp_path / f"{name}.npz", **{key: value.astype(np.float32) for key, value in arrays.items()})
    folders, claims = {"features": tmp_path}, photos_mixup.CLAIMS
    (start,) = plan.starts(claims.values(), SMALL, 3)
    assert make_cell(start, tmp_path, "cpu", "", folders) == ""
    for row in claims["photos-m3-beats-m2"].rows:
        cell = cell_of(row, (), 0, SMALL)
        assert make_cell(cell, tmp_path, "cpu", "", folders) == ""
        require_metrics(claims, row, cell.read(tmp_path)["found"])  # type: ignore[index]


@pytest.mark.parametrize("row", [coco.FT, photos_mixup.FT], ids=lambda row: row.recipe)
def test_all_seeds_have_one_start(row: Row) -> None:
    first, second = (cell_of(row, (), seed, GPU) for seed in (0, 1))
    assert first.start == second.start
    assert first.settings != second.settings
    assert first.start != cell_of(row, (), 0, SMALL).start


def test_claims_on_coco_need_their_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, out = "coco-m2-few-shot", tmp_path / "none"
    with pytest.raises(UserError, match=rf"{name} needs .*cifar10_test2k/test-000\.tar, and --data is not given"):
        run_claims([name], out=out, folders={"features": tmp_path})
    assert main(["claims", "run", name, "--data", str(tmp_path), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path} has no coco_128/dev-000.tar; see docs/claims.md" in said
    assert said.count("\n") == 1
    assert not out.exists()
    assert plan.gathered(name, CLAIMS[name], GPU, 5, tmp_path).command.endswith("--seeds 5 --data FOLDER")
