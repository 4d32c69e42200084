"""`equipoise probe` on named modalities: features are the model's points, labels those of the data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from equipoise.cli import main
from equipoise.config import dump, load_run
from equipoise.data.tokenizer import NoTokenizer
from equipoise.models.folder import write_model
from equipoise.models.modal_model import ModalModel, subset_inputs
from equipoise.workflows import build_model, load
from equipoise.workflows.probe import ProbeRequest, probed_features

SMALL = (
    "data.train_size=60",
    "data.validation_size=30",
    "data.test_size=40",
    "data.missing=0.3",
    "data.noise=[0.1,0.1,0.1]",
)
SET = [word for one in SMALL for word in ("--set", one)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as it begins: maps drawn at random keep enough of a world of little noise."""
    folder, loaded = tmp_path_factory.mktemp("probed"), load_run("gmc-world", SMALL)
    torch.manual_seed(0)
    model = build_model(loaded.run, NoTokenizer())
    assert isinstance(model, ModalModel)
    model.measure(loaded.run.data.build("train"))
    write_model(model, folder, dump(loaded.table), {})
    return folder


def test_features_are_points_of_those_who_have_the_modality(run: Path) -> None:
    model, train = load(run), load_run("gmc-world", SMALL).run.data.build("train")
    assert isinstance(model, ModalModel)
    for by, names in (("", model.modalities), ("audio", ("audio",)), ("text,video", ("text", "video"))):
        _, classes, parts = probed_features(ProbeRequest(run, "gmc-world", SMALL, by=by))
        there = [row for row in range(60) if any(bool(train.present(name)[row]) for name in names)]  # type: ignore[attr-defined]
        assert classes == ("0", "1")
        assert torch.equal(parts[0].classes, train.labels[there])  # type: ignore[attr-defined]
        first = model.encode(subset_inputs(train.batch([there[5]]), names))  # type: ignore[attr-defined]
        torch.testing.assert_close(parts[0].features[5], first[0], rtol=0, atol=1e-5)
        assert [len(part.classes) for part in parts[1:]] == [30, 40]


def test_labels_need_not_be_those_of_the_model(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["probe", str(run), "gmc-world", *SET, "--set", "data.classes=3", "--protocol", "knn", "--by", "text"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert "points of text" in capsys.readouterr().out
    found = json.loads((tmp_path / "linear_probe_knn.json").read_text())
    assert found["metrics"]["knn_acc1"] > 0.4  # a third by chance


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--by", "smell"), '"smell"'),
        (("--set", "data.classes=0"), "no classes to probe"),
        (("--set", "data.width=20"), "20 wide"),
        (("--shots", "1"), "--shots"),
    ],
)
def test_what_cannot_be_probed_is_told(
    run: Path, words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", str(run), "gmc-world", *SET, *words]) == 2
    assert told in capsys.readouterr().err


def test_a_model_of_pictures_has_no_modalities_to_name(
    finished_run: Path, tiny_settings: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [word for one in tiny_settings for word in ("--set", one)]
    assert main(["probe", str(finished_run), "demo", *sets, "--by", "audio"]) == 2
    assert "named modalities" in capsys.readouterr().err


def test_fine_tuning_points_to_the_probe(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["finetune", str(run), "gmc-world", "--out", str(tmp_path / "tuned")]) == 2
    assert "equipoise probe" in capsys.readouterr().err
    assert not (tmp_path / "tuned").exists()
