"""`equipoise index` and `search`, through the command line: what is found, resumed, shared, refused."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest
import torch
from PIL import Image

from equipoise.cli import main
from equipoise.config import dump, load_run
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.index import open_index
from equipoise.models.fingerprint import fingerprint
from equipoise.models.folder import write_model
from equipoise.workflows import build_model, load

SMALL = ["data.train_size=23", "data.validation_size=9", "data.test_size=9", "preprocess.size=16", "image.patch=8"]
SET = [word for setting in SMALL for word in ("--set", setting)]


def model_in(folder: Path, seed: int, space: str = "sphere") -> Path:
    torch.manual_seed(seed)
    loaded = load_run("clip-scenes", [*SMALL, f"space.name={space}"])
    scenes = loaded.run.data.build("train")
    texts = [text for i in range(23) for text in scenes.pair(i).captions]
    write_model(
        build_model(loaded.run, CaptionTokenizer.from_config(loaded.run.tokens, texts)), folder, dump(loaded.table), {}
    )
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return model_in(tmp_path_factory.mktemp("model"), 0)


@pytest.fixture(scope="module")
def scenes():
    return load_run("clip-scenes", SMALL).run.data.build("train")


@pytest.fixture(scope="module")
def index_folder(model, tmp_path_factory) -> Path:
    """Of the training scenes, images and texts."""
    folder = tmp_path_factory.mktemp("made") / "index"
    assert main(["index", str(model), "clip-scenes", *SET, "--of", "both", "--out", str(folder), "--quiet"]) == 0
    return folder


def said(capsys, *words: object) -> tuple[int, str]:
    """The exit status of a command, and what it said of a mistake, which is one line."""
    capsys.readouterr()
    status = main([str(word) for word in words])
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line and "left" not in line]
    assert len(lines) <= 1
    return status, "".join(lines)


def shard(path: Path, count: int, first: int = 0) -> Path:
    with tarfile.open(path, "w") as tar:
        for n in range(first, first + count):
            picture = io.BytesIO()
            Image.new("RGB", (40, 30), (20 * n % 256, 10, 200)).save(picture, "JPEG")
            side = {"year": 2000 + n, "source": "web", "nested": {"a": [1]}}
            for ending, content in (
                ("jpg", picture.getvalue()),
                ("txt", f"a red circle {n}".encode()),
                ("json", json.dumps(side).encode()),
            ):
                entry = tarfile.TarInfo(f"{n:04d}.{ending}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return path


def test_points_records_and_pictures_are_those_of_the_data(index_folder, model, scenes):
    index, loaded = open_index(index_folder), load(model)
    texts = [(i, text) for i in range(23) for text in scenes.pair(i).captions]
    assert index.modality == {"image": 23, "text": len(texts)}
    assert (index.model.name, index.model.fingerprint) == (str(model), fingerprint(model))
    assert index.space == loaded.space
    images = loaded.encode_image(scenes.images(range(23), 16))
    torch.testing.assert_close(index.points(range(23)), images, rtol=0, atol=1e-5)
    found = index.search(loaded.encode_text([text for _, text in texts]), 1, 'of = "text"')
    assert [record.caption for record in index.records(found.rows[:, 0])] == [text for _, text in texts]
    for row in (0, 22):
        record = index.records([row])[0]
        assert (record.key, record.captions) == (scenes.pair(row).key, scenes.pair(row).captions)
        with Image.open(io.BytesIO(index.thumbnail(row) or b"")) as picture:
            assert max(picture.size) == 176
    first_text = index.records([23])[0]
    assert (first_text.of, first_text.key) == ("text", scenes.pair(0).key)
    assert index.thumbnail(23) == index.thumbnail(0)


def test_search_prints_what_the_index_finds(index_folder, model, capsys):
    capsys.readouterr()
    assert main(["search", str(index_folder), str(model), "a red circle", "--top", "4", "--json", "--quiet"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    index, points = open_index(index_folder), load(model).encode_text(["a red circle"])
    assert [result["row"] for result in results] == index.search(points, 4).rows[0].tolist()
    words = ["search", str(index_folder), str(model), "a red circle", "--where", 'of = "image"', "--json", "--quiet"]
    assert main(words) == 0
    assert {result["of"] for result in json.loads(capsys.readouterr().out)["results"]} == {"image"}


def test_search_finds_what_is_like_a_record_but_not_itself(index_folder, model, scenes, capsys):
    index = open_index(index_folder)
    for by, row in (("", 4), ("image", 4), ("text", index.rows_of_keys({scenes.pair(4).key})[1])):
        capsys.readouterr()
        words = ["search", str(index_folder), str(model), "--like", scenes.pair(4).key, "--by", by, "--json", "--quiet"]
        assert main(words) == 0
        every = index.search(index.points([row]), 11).rows[0].tolist()
        expected = [found for found in every if found != row][:10]
        assert [result["row"] for result in json.loads(capsys.readouterr().out)["results"]] == expected


def test_shards_with_side_data_are_added_filtered_replaced_and_deleted(model, tmp_path, capsys):
    data, more, folder = shard(tmp_path / "a.tar", 6), shard(tmp_path / "b.tar", 4, first=4), tmp_path / "index"
    assert main(["index", str(model), str(data), "--out", str(folder)]) == 0
    index = open_index(folder)
    assert index.fields["year"] == ("number",)
    assert index.records([2])[0].side == {"year": 2002, "source": "web", "nested": {"a": [1]}}
    status, sentence = said(capsys, "index", "add", folder, model, more)
    assert status == 2
    assert '"0004" already' in sentence
    assert said(capsys, "index", "add", folder, model, more, "--replace")[0] == 0
    assert len(open_index(folder)) == 8
    assert said(capsys, "index", "delete", folder, "--where", "year < 2003")[0] == 0
    found = open_index(folder).search(load(model).encode_text(["red"]), 20).rows[0]
    keys = [record.key for record in open_index(folder).records(found[found >= 0])]
    assert sorted(keys) == ["0003", "0004", "0005", "0006", "0007"]
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_work_that_was_stopped_goes_on_and_processes_share_it(model, tmp_path, monkeypatch):
    """The second file fails; the first is kept, and not computed again."""
    from equipoise.workflows.index import embedding

    data, folder = shard(tmp_path / "a.tar", 9), tmp_path / "index"
    words = ["index", str(model), str(data), "--out", str(folder), "--per-shard", "4", "--batch-size", "2"]
    asked: list[int] = []
    whole = embedding.encode_readable

    def stopping(images, source, numbers, bad):
        asked.extend(numbers)
        if 6 in numbers:
            raise KeyboardInterrupt
        return whole(images, source, numbers, bad)

    monkeypatch.setattr(embedding, "encode_readable", stopping)
    assert main(words) == 130
    assert not (folder / "index.json").exists()
    monkeypatch.setattr(embedding, "encode_readable", lambda *given: (asked.extend(given[2]), whole(*given))[1])
    asked.clear()
    assert main(words) == 0
    assert asked == [4, 5, 6, 7, 8]
    assert [record.key for record in open_index(folder).records(range(9))] == [f"{n:04d}" for n in range(9)]


@pytest.mark.slow
def test_several_processes_make_the_same_index(model, tmp_path):
    data = shard(tmp_path / "a.tar", 9)
    for name, processes in (("one", "1"), ("two", "2")):
        words = ["index", str(model), str(data), "--out", str(tmp_path / name), "--per-shard", "2"]
        assert main([*words, "--processes", processes]) == 0
    one, two = open_index(tmp_path / "one"), open_index(tmp_path / "two")
    torch.testing.assert_close(one.points(range(9)), two.points(range(9)), rtol=0, atol=1e-6)
    assert one.records(range(9)) == two.records(range(9))


def test_fewer_bits_are_told_with_their_recall(model, tmp_path, capsys):
    folder = tmp_path / "index"
    words = ["index", str(model), "clip-scenes", *SET, "--out", str(folder), "--dtype", "int8", "--json", "--quiet"]
    capsys.readouterr()
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert 0.5 < told["recall@10"] <= 1
    assert json.loads((folder / "index.json").read_text())["recall"]["recall@10"] == told["recall@10"]


def test_mistakes_are_one_sentence_each(model, index_folder, tmp_path, capsys):
    other = model_in(tmp_path / "other", 1)
    empty = tmp_path / "empty"
    empty.mkdir()
    new = tmp_path / "new"
    for words, fragment in (
        (("search", index_folder, other, "red"), "another model"),
        (("index", "add", index_folder, other, "clip-scenes", *SET), "another model"),
        (("index", model, "clip-scenes", *SET, "--out", index_folder), "already"),
        (("index", model, "clip-scenes", *SET), "--out"),
        (("index", model, "clip-scenes", *SET, "--to", "mysql://x"), "postgresql://"),
        (("index", model, empty, "--out", new), "empty"),
        (("index", model, tmp_path / "none.tar", "--out", new), "none.tar"),
        (("index", tmp_path / "none", "clip-scenes", "--out", new), "no model"),
        (("index", model, "clip-scenes", *SET, "--out", new, "--processes", "0"), "processes"),
        (("index", model, "clip-scenes", *SET, "--out", new, "--recall", "2"), "recall"),
        (("index", "delete", index_folder), "--where"),
        (("index", "delete", index_folder, "nobody"), "nobody"),
        (("index", "delete", index_folder, "--where", "colour = 3"), "colour"),
        (("search", index_folder, model), "say what to look for"),
        (("search", index_folder, model, "red", "--like", "a"), "one of them"),
        (("search", index_folder, model, "--like", "nobody"), "nobody"),
        (("search", index_folder, model, "--like", "a", "--data", "clip-scenes"), "--image"),
        (("index", model, "clip-scenes", *SET, "--out", new, "--of", "sounds"), "sounds"),
        (("search", index_folder, "a red circle"), "is no model folder"),
        (("search", index_folder, model, "red", "--top", "0"), "k is 0"),
        (("search", tmp_path, model, "red"), "no index"),
    ):
        status, sentence = said(capsys, *words)
        assert (status, fragment in sentence) == (2, True), (words, sentence)
    assert not new.exists()


def test_an_unknown_kind_is_one_sentence(model, capsys):
    with pytest.raises(SystemExit) as end:
        main(["index", str(model), "demo", "--out", "x", "--kind", "hsnw"])
    assert end.value.code == 2
    assert "did you mean hnsw?" in capsys.readouterr().err


def test_a_damaged_index_is_one_sentence(index_folder, model, tmp_path, capsys):
    copied = tmp_path / "copied"
    shutil.copytree(index_folder, copied)
    path = copied / "segment-00000" / "points.bin"
    path.write_bytes(path.read_bytes()[:-4] + b"abcd")
    status, sentence = said(capsys, "search", copied, model, "red")
    assert (status, "points.bin" in sentence) == (2, True)
    assert said(capsys, "search", copied, model, "red", "--no-verify")[0] == 0


def test_the_command_that_goes_without_saying():
    from equipoise.cli.parser import with_implied

    assert with_implied(["index", "runs/a", "data"]) == ["index", "build", "runs/a", "data"]
    for words in (["index", "add", "x"], ["index", "--help"], ["index"], ["train", "x"], []):
        assert with_implied(words) == words
