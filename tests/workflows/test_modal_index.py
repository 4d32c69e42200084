"""`equipoise index` and `search` of named modalities: rows by modality, queries by another one, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from equipoise.cli import main
from equipoise.config import dump, load_run
from equipoise.data.tokenizer import NoTokenizer
from equipoise.index import open_index
from equipoise.models.folder import write_model
from equipoise.models.modal_model import ModalModel, subset_inputs
from equipoise.workflows import build_model, load

SMALL = ("data.train_size=40", "data.validation_size=8", "data.test_size=12", "data.missing=0.3")
SET = [word for one in SMALL for word in ("--set", one)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as it begins: what is found must be what its points say, whatever they mean."""
    folder, loaded = tmp_path_factory.mktemp("modal-index"), load_run("gmc-world", SMALL)
    torch.manual_seed(0)
    model = build_model(loaded.run, NoTokenizer())
    assert isinstance(model, ModalModel)
    model.measure(loaded.run.data.build("train"))
    write_model(model, folder, dump(loaded.table), {})
    return folder


@pytest.fixture(scope="module")
def everything(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of every modality and of all together, of training samples, which lack some."""
    folder = tmp_path_factory.mktemp("all") / "index"
    assert main(["index", str(run), "gmc-world", *SET, "--of", "all", "--out", str(folder), "--per-shard", "16"]) == 0
    return folder


@pytest.fixture(scope="module")
def train():
    return load_run("gmc-world", SMALL).run.data.build("train")


def answered(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict]:
    capsys.readouterr()
    assert main([*map(str, words), "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)["results"]


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err


def test_rows_are_the_points_that_the_model_gives(run: Path, everything: Path, train) -> None:
    model, index = load(run), open_index(everything)
    assert isinstance(model, ModalModel)
    counts = {name: int(train.present(name).sum()) for name in model.modalities}
    assert dict(index.modality) == {**counts, "joint": 40}
    assert counts["audio"] < 40
    for number in (0, 17, 39):
        rows = index.rows_of_keys({train.pair(number).key}).tolist()
        made = {record.of: index.points([row])[0] for row, record in zip(rows, index.records(rows), strict=True)}
        assert set(made) == {"joint", *(name for name in model.modalities if bool(train.present(name)[number]))}
        for name, point in made.items():
            names = model.modalities if name == "joint" else (name,)
            expected = model.encode(subset_inputs(train.batch([number]), names))[0]
            torch.testing.assert_close(point, expected, rtol=0, atol=1e-5)


def test_only_what_is_named_is_indexed(run: Path, tmp_path: Path, train) -> None:
    for of, rows in (("", {"joint": 40}), ("video", {"video": int(train.present("video").sum())})):
        folder = tmp_path / (of or "joint")
        assert main(["index", str(run), "gmc-world", *SET, "--of", of, "--out", str(folder)]) == 0
        assert dict(open_index(folder).modality) == rows


def test_a_sample_is_searched_for_by_another_modality(
    run: Path, everything: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brute force: the text of a test sample beside every stored point of video."""
    model, test = load(run), load_run("gmc-world", SMALL).run.data.build("test")
    assert isinstance(model, ModalModel)
    key = test.pair(3).key
    words = ("search", everything, run, "--like", key, "--by", "text", "--data", "gmc-world", "--split", "test", *SET)
    found = answered(capsys, *words, "--where", 'of = "video"', "--top", "4")
    index = open_index(everything)
    rows = [row for row in range(len(index)) if index.records([row])[0].of == "video"]
    scores = model.space.similarity(model.encode(subset_inputs(test.batch([3]), ("text",))), index.points(rows))[0]
    best = scores.topk(4)
    assert [result["row"] for result in found] == [rows[place] for place in best.indices.tolist()]
    assert [result["score"] for result in found] == pytest.approx(best.values.tolist(), abs=1e-5)
    assert {result["of"] for result in found} == {"video"}
    together = answered(capsys, *[word for word in words if word not in ("--by", "text")], "--top", "1")
    point = model.encode(subset_inputs(test.batch([3]), model.modalities))
    every = model.space.similarity(point, index.points(range(len(index))))[0]
    assert together[0]["row"] == int(every.argmax())


def test_a_record_of_the_index_is_searched_for_and_is_not_its_own_answer(
    run: Path, everything: Path, train, capsys: pytest.CaptureFixture[str]
) -> None:
    number = int((train.present("audio") & train.present("video")).nonzero()[0])
    key, index = train.pair(number).key, open_index(everything)
    own = {record.of: row for row in index.rows_of_keys({key}).tolist() for record in index.records([row])}
    for by in ("audio", "joint", ""):
        found = answered(capsys, "search", everything, run, "--like", key, "--by", by, "--top", "5")
        row = own[by or "joint"]
        every = index.space.similarity(index.points([row]), index.points(range(len(index))))[0]
        every[row] = -torch.inf
        assert [result["row"] for result in found] == every.topk(5).indices.tolist()


def test_what_is_found_is_told_with_its_modality_and_label(
    run: Path, everything: Path, train, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", str(everything), str(run), "--like", train.pair(0).key, "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(line.split()[2] in ("text", "audio", "video", "joint") and line.split()[3] in "01" for line in lines)
    for name in ("text", "video"):  # a modality called text is no caption
        words = ["--like", train.pair(0).key, "--top", "3", "--where", f'of = "{name}"']
        assert main(["search", str(everything), str(run), *words]) == 0
        assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == [name] * 3


def test_an_index_grows_and_lossy_kinds_are_measured(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "index"
    assert main(["index", str(run), "gmc-world", *SET, "--dtype", "int8", "--out", str(folder)]) == 0
    assert "recall@10" in capsys.readouterr().out
    assert main(["index", "add", str(folder), str(run), "gmc-world", *SET, "--split", "test"]) == 0
    assert "52 of joint" in capsys.readouterr().out


def test_what_cannot_be_searched_is_told(
    run: Path, everything: Path, capsys: pytest.CaptureFixture[str], train
) -> None:
    lacks = train.pair(int((~train.present("audio")).nonzero()[0])).key
    search, data = ("search", everything, run), ("--data", "gmc-world", *SET)
    assert "reads text, audio, video" in refused(capsys, *search, "a red circle")
    assert "no record" in refused(capsys, *search, "--like", "nobody")
    assert 'no row of "' in refused(capsys, *search, "--like", lacks, "--by", "audio")
    assert "has no audio" in refused(capsys, *search, "--like", lacks, "--by", "audio", *data)
    assert '"smell"' in refused(capsys, *search, "--like", lacks, "--by", "text,smell", *data)
    assert "no sample of the data" in refused(capsys, *search, "--like", "nobody", *data)
    assert "belong to --like" in refused(capsys, *search, "words", "--by", "audio")
    assert "belong to --data" in refused(capsys, *search, "--like", lacks, "--split", "test")
    assert "one of them" in refused(capsys, *search, "words", "--like", lacks)
    assert '"images"' in refused(capsys, "index", run, "gmc-world", *SET, "--of", "images", "--out", "never")
    assert not Path("never").exists()


@pytest.mark.slow
def test_several_processes_make_the_same_index(run: Path, everything: Path, tmp_path: Path) -> None:
    words = ["index", str(run), "gmc-world", *SET, "--of", "all", "--per-shard", "16", "--processes", "2"]
    assert main([*words, "--out", str(tmp_path / "index")]) == 0
    alone, together = open_index(everything), open_index(tmp_path / "index")
    assert alone.records(range(len(alone))) == together.records(range(len(together)))
    torch.testing.assert_close(alone.points(range(len(alone))), together.points(range(len(together))))


def test_pages_of_pictures_refuse_it(run: Path, everything: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "reads text, audio, video" in refused(capsys, "serve", run, "--index", everything, "--port", "0")
