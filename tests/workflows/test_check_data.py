"""`equipoise data check` and `equipoise data prepare` from the command line."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equipoise.cli import main
from equipoise.data.tokenizer import CaptionTokenizer

pytest.importorskip("webdataset")


def write_shard(path: Path, side_files: dict[str, bytes]) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((40, 30)).save(buffer, "JPEG")
    files = side_files | {f"{name.partition('.')[0]}.jpg": buffer.getvalue() for name in side_files}
    with tarfile.open(path, "w") as tar:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def test_check_a_shard(tmp_path, capsys):
    path = write_shard(tmp_path / "a.tar", {"x.txt": b"a cat", "y.txt": b"a dog", "z.txt": b""})
    assert main(["data", "check", str(path), "--out", str(tmp_path / "out")]) == 1  # not all is well
    said = capsys.readouterr().out
    assert "record z: the caption is empty" in said
    report = json.loads((tmp_path / "out" / "check.json").read_text())
    assert (report["records"], report["usable"], report["images that are copies"]) == (3, 2, 1)
    assert Image.open(tmp_path / "out" / "sheet.png").width > 300


def test_captions_are_judged_by_the_tokenizer_that_is_known(tmp_path, capsys):
    """Of bare files by WordPiece, which is the strictest; of a recipe by its own; by --tokens where it is given."""
    path = write_shard(tmp_path / "a.tar", {"x.txt": b"a cat", "y.txt": "\u200b".encode()})
    recipe, out = tmp_path / "mine.toml", ["--out", str(tmp_path / "out")]
    recipe.write_text(f'[data]\nname = "shards"\ntrain = "{path}"\n')
    CaptionTokenizer.train(["a cat"], CaptionTokenizer.Config(vocabulary=600)).save(tmp_path)
    assert main(["data", "check", str(path), *out]) == 1
    assert "a.tar, record y: the tokenizer leaves nothing of the caption" in capsys.readouterr().out
    assert main(["data", "check", str(recipe), *out]) == 0
    assert main(["data", "check", str(recipe), "--set", "tokens.kind=wordpiece", *out]) == 1
    assert main(["data", "check", str(path), "--tokens", str(tmp_path / "tokenizer.json"), *out]) == 0


def test_a_label_that_is_half_a_character(tmp_path, capsys):
    path = write_shard(tmp_path / "a.tar", {"x.txt": b"a cat", "y.txt": b"a dog", "y.json": b'{"label": "\\ud800"}'})
    assert main(["data", "check", str(path), "--out", str(tmp_path / "out")]) == 1
    assert "record y: the .json holds half a character" in capsys.readouterr().out


def test_check_a_recipe_with_its_splits(tmp_path, capsys):
    for name in ("t", "v"):
        write_shard(tmp_path / f"{name}.tar", {"x.txt": b"a cat"})
    recipe = tmp_path / "mine.toml"
    recipe.write_text(f'[data]\nname = "shards"\nroot = "{tmp_path}"\ntrain = "t.tar"\nvalidation = "v.tar"\n')
    out = tmp_path / "out"
    assert main(["data", "check", str(recipe), "--out", str(out)]) == 0
    assert sorted(path.parent.name for path in out.rglob("check.json")) == ["train", "validation"]
    assert main(["data", "check", str(recipe), "--split", "test", "--out", str(out)]) == 2
    assert "names no files" in capsys.readouterr().err


def test_prepare_a_shard_a_table_and_classes(tmp_path, capsys):
    path = write_shard(tmp_path / "a.tar", {"x.txt": b"a cat"})
    assert main(["data", "prepare", str(path), str(tmp_path / "one"), "--size", "16"]) == 0
    assert (tmp_path / "one" / "00000.tar").is_file()
    classes = tmp_path / "classes"
    classes.mkdir()
    write_shard(classes / "a.tar", {"x.cls": b"0"})
    (classes / "classnames.txt").write_text("cat\n")
    (classes / "templates.txt").write_text("a {c}\n")
    assert main(["data", "prepare", str(classes), str(tmp_path / "two"), "--size", "16"]) == 0
    assert (tmp_path / "two" / "classnames.txt").read_text() == "cat\n"
    assert main(["data", "check", str(tmp_path / "two"), "--out", str(tmp_path / "out")]) == 0


def test_prepare_counts_what_it_wrote(tmp_path, capsys):
    from test_engines import damaged_shard

    path = damaged_shard(tmp_path / "a.tar", 2)
    assert main(["data", "prepare", str(path), str(tmp_path / "out"), "--size", "16"]) == 0
    assert "3 records are in 1 shards (.tar) in" in (said := capsys.readouterr().out)
    assert "; 1 that could not be read are named in left_out.json" in said


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["nowhere.tar"], "nowhere.tar: there is no such file"),
        (["demo"], "the data of this recipe are not pictures in files"),
        (["nowhere.tar", "--set", "seed=1"], "--set belongs to recipes"),
        (["no-such-recipe"], 'there is no recipe "no-such-recipe"'),
        (["."], "neither shards (.tar) nor folders"),
    ],
)
def test_mistakes_are_one_sentence(words, fault, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["data", "check", *words]) == 2
    said = capsys.readouterr().err
    assert fault in said
    assert said.count("\n") == 1
