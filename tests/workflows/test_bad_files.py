"""Files that are wrong: of each every command says one sentence that names it, and leaves nothing behind."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from bad_files import write_bad
from class_pictures import SMALL, write_class_folders

from equipoise.cli import main
from equipoise.workflows import run_recipe

pytest.importorskip("pyarrow", reason="pyarrow is not installed: bad files are NOT tested")

SAID = {  # what is said of each, by fragments
    "numbers.csv": ('"size", "count"', "data.path=COLUMN"),
    "no-captions-column.csv": ('"width"', "data.captions=COLUMN"),
    "no-header.csv": ("no line of column names",),
    "missing.csv": ('"nowhere/images/000.png"', "data.images=FOLDER"),
    "half-missing.csv": ("records cannot be used", "half-missing.csv, line ", "No such file"),
    "empty-captions.csv": ("30 of 30 records", "line 2: the caption is empty"),
    "header-only.csv": ("no usable record",),
    "empty.csv": ("nothing in this file",),
    "blank.csv": ("nothing in this file",),
    "empty.jsonl": ("nothing in this file",),
    "empty.json": ("nothing in this file",),
    "broken.jsonl": ("line 7: this is not JSON", "one object a line"),
    "no-objects.jsonl": ("line 1: this is no object",),
    "cut.json": ("line 1 column",),
    "ids.json": ('entry 0 of "annotations"', "image_id 500"),
    "instances.json": ('entry 0 of "annotations" has no "caption"',),
    "neither.json": ('no list "images"',),
    "words.json": ("holds no objects",),
    "mixed.csv": ("line 3: the caption is not UTF-8 text",),
    "utf16.csv": ("UTF-16", "save it as UTF-8"),
    "picture.csv": ("this is no table",),
    "zeros.csv": ("this is no table",),
    "picture.tar": ("cut short or damaged",),
    "empty.tar": ("this shard is empty",),
    "cut.tar": ("cut short or damaged",),
    "empty.parquet": ("nothing in this file",),
    "text.parquet": ("cannot be read as Parquet",),
    "cut.parquet": ("cannot be read as Parquet", "fetch it again"),
    "cut-pages.parquet": ("cannot be read as Parquet",),
    "empty": ("empty: there ",),
    "papers": ("neither shards (.tar) nor folders of pictures",),
    "nowhere.csv": ("there is no such file",),
    "nowhere": ("there is no such file",),
}
LISTED = {"half-missing.csv", "empty-captions.csv", "mixed.csv"}  # by `data check`, record by record
QUICK = ("check", "train")  # commands; the others are tried in the slow tests

Command = Callable[[str, Path, Path], list[object]]  # DATA, a model, --out
COMMANDS: dict[str, Command] = {
    "check": lambda data, _, out: ["data", "check", data, "--out", out],
    "train": lambda data, _, out: ["train", data, "--epochs", 1, "--out", out],
    "eval": lambda data, model, out: ["eval", model, data, "--out", out],
    "zeroshot": lambda data, model, out: ["zeroshot", model, data, "--classes", "a,b", "--out", out],
    "audit": lambda data, model, out: ["audit", data, "--model", model, "--out", out],
    "clean": lambda data, model, out: ["clean", data, "--model", model, "--out", out],
    "finetune": lambda data, model, out: ["finetune", model, data, "--epochs", 1, "--out", out],
    "embed": lambda data, model, out: ["embed", model, data, "--out", out],
    "shift": lambda data, model, out: ["shift", model, data, "--out", out],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_bad(tmp_path_factory.mktemp("bad"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("good")
    pictures = write_class_folders(home / "pictures", each=4)
    named = ["data.name=folders", f"data.train={pictures}", f"data.validation={pictures}"]
    assert run_recipe("flickr8k", [*named, *SMALL, "training.steps=1"], home / "run", "") == 0
    return home / "run"


def test_every_bad_file_is_spoken_of(data: dict[str, str]) -> None:
    assert set(SAID) == set(data)


@pytest.mark.parametrize("name", SAID)
def test_check_and_train_say_one_sentence(name: str, data: dict[str, str], tmp_path: Path) -> None:
    one_sentence(name, data, QUICK, Path("none"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_every_other_command_says_it_too(name: str, data: dict[str, str], model: Path, tmp_path: Path) -> None:
    one_sentence(name, data, tuple(name for name in COMMANDS if name not in QUICK), model, tmp_path)


def one_sentence(name: str, data: dict[str, str], commands: tuple[str, ...], model: Path, home: Path) -> None:
    for command in commands:
        folder, out, err = home / command, io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(word) for word in COMMANDS[command](data[name], model, folder)])
        sentence = err.getvalue().splitlines()[-1]
        if command == "check" and name in LISTED:
            assert (code, folder.exists()) == (1, True)
            assert f"unusable: {data[name]}, line " in out.getvalue()
            continue
        assert (code, folder.exists()) == (2, False), (command, sentence)
        assert "Traceback" not in err.getvalue()
        assert sentence.startswith("equipoise: ")
        assert data[name] in sentence
        if command == "check" and name == "header-only.csv":
            assert "there are no records" in sentence
            continue
        for fragment in SAID[name]:
            assert fragment in sentence, command
