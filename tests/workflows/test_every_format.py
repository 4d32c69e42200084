"""Pictures with captions in every form go through every command in one line each, with the right numbers."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from every_format import CLASSES, EACH, FORMATS, captions, write_formats, write_ideal

from equipoise.cli import main
from equipoise.config import load_stored
from equipoise.finetuning.comparison import DidNotHelp

pytest.importorskip("pyarrow", reason="pyarrow is not installed: files in every form are NOT tested")

FEW, MANY = 24, 200  # pictures, quick and slow
NARROW, WIDE = 64, 512  # towers that can tell all captions of the few, and of the many, apart
NO_CAPTIONS = "these pictures have no captions"
SPLIT_FIELD = {"plain.parquet": ("--set", "data.caption_separator=|")}


@dataclass(frozen=True)
class House:
    """Data in every form, a run on a few steps of it and the model that knows all of it."""

    folder: Path
    count: int
    data: dict[str, str]

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def ideal(self) -> Path:
        return self.folder / "ideal"


def tiny(width: int) -> list[str]:
    settings = ("preprocess.size=32", "tokens.vocabulary=600", "tokens.context=40", "image.layers=1", "image.patch=8",
                "text.layers=1", "space.dim=32", "training.device=cpu", f"image.width={width}",
                f"text.width={width}")  # fmt: skip
    return [word for setting in settings for word in ("--set", setting)]


def built(folder: Path, count: int) -> House:
    house = House(folder, count, write_formats(folder / "data", count))
    words = ("train", house.data["pairs.csv"], "--epochs", "1", "--out")
    ask(*words, house.run, *tiny(NARROW))
    wide = house.run
    if count > FEW:
        wide = folder / "wide"
        ask(*words, wide, *tiny(WIDE))
    write_ideal(wide, house.ideal, count)
    return house


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> House:
    return built(tmp_path_factory.mktemp("few"), FEW)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> House:
    return built(tmp_path_factory.mktemp("many"), MANY)


def reply(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def ask(*words: object, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The numbers that a command prints for programs."""
    code, out, err = reply(*words, "--json")
    assert code in codes, err
    found: dict[str, Any] = json.loads(out)
    return {**found, "code": code}


def look(house: House, form: str, out: Path) -> None:
    """`data check`, `eval` and `zeroshot`: what the data is, and what a model that knows it scores."""
    data, more = house.data[form], SPLIT_FIELD.get(form, ())
    each = {"classes": 1, "alone": 0}.get(form, EACH)
    checked = ask("data", "check", data, "--out", out / "check", *more)
    assert (checked["records"], checked["usable"], checked["unusable"]) == (house.count, house.count, 0)
    assert (checked["captions"], checked["images that are copies"]) == (each * house.count, 0)
    truth = Counter(CLASSES[number % 3] for number in range(house.count))
    if form == "classes":
        assert checked["labels"] == truth
    named = () if form == "classes" else ("--classes", ",".join(CLASSES))
    sorted_out = ask("zeroshot", house.ideal, data, *named, *more)
    assert Counter(one["classes"][0]["class"] for one in sorted_out["pictures"]) == truth
    if form == "alone":
        refused(house, form, out, "eval", house.ideal, data)
        return
    found = ask("eval", house.ideal, data, *more)["results"]
    if form == "classes":
        assert set(found) == {"zero_shot", "consistency"}
        assert found["zero_shot"]["metrics"]["acc1"] == sorted_out["metrics"]["acc1"] == 1.0
        return
    scores = found["retrieval"]["metrics"]
    assert (scores["image_to_text_R@1"], scores["text_to_image_R@1"]) == (1.0, 1.0)
    assert (scores["image_to_text_queries"], scores["text_to_image_queries"]) == (house.count, EACH * house.count)


def judge(house: House, form: str, out: Path) -> None:
    """`embed`, `audit` and `clean`."""
    data, more = house.data[form], SPLIT_FIELD.get(form, ())
    assert ask("embed", house.ideal, data, "--out", out / "embed", *more)["records"] == house.count
    words = (data, "--model", house.ideal, *more, "--out")
    if form == "alone":
        refused(house, form, out / "audit", "audit", *words, out / "audit")
        refused(house, form, out / "clean", "clean", *words, out / "clean")
        return
    texts = house.count * (1 if form == "classes" else EACH)
    audited = ask("audit", *words, out / "audit")
    assert (audited["noise"], audited["judges"][0]["knows"]) == (0.0, True)
    assert len((out / "audit" / "pairs.csv").read_text(encoding="utf-8").splitlines()) == texts + 1
    cleaned = ask("clean", *words, out / "clean")
    assert (cleaned["records"], cleaned["captions"]) == (house.count, texts)
    assert cleaned["kept"] == {"captions": texts, "images": house.count}


def learn(house: House, form: str, out: Path) -> None:
    """`train` and `finetune`, a few steps each."""
    data, more = house.data[form], SPLIT_FIELD.get(form, ())
    training = ("train", data, "--epochs", "1", "--out", out / "run", *more, *tiny(NARROW))
    tuning = (
        "finetune",
        house.run,
        data,
        "--epochs",
        "1",
        "--out",
        out / "tuned",
        "--set",
        "training.device=cpu",
        *more,
    )
    if form == "alone":
        refused(house, form, out / "run", *training)
        refused(house, form, out / "tuned", *tuning)
        return
    held = ask(*training)["results"]
    source = load_stored(out / "run" / "config.toml").run.data
    kept, away = (len(source.build(split)) for split in ("train", "validation"))
    assert kept + away == house.count
    assert away
    assert set(held) >= ({"zero_shot"} if form == "classes" else {"retrieval"})
    if form != "classes":
        queries = held["retrieval"]["metrics"]
        assert (queries["image_to_text_queries"], queries["text_to_image_queries"]) == (away, EACH * away)
    found = ask(*tuning, codes=(0, DidNotHelp.status))
    told = found["comparison"]
    assert told["metric"] == ("acc1" if form == "classes" else "mean_recall")
    assert (told["after"] > told["before"]) == (found["code"] == 0)


def refused(house: House, form: str, out: Path, *words: object) -> None:
    code, _, err = reply(*words)
    assert (code, "Traceback" in err) == (2, False)
    assert NO_CAPTIONS in err.splitlines()[-1]
    assert house.data[form] in err
    assert not out.exists() or out.name not in {"audit", "clean", "run", "tuned"}


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=[pytest.mark.slow] * bool(n % 3)) for n, form in enumerate(FORMATS)]
)
def test_every_form_is_the_same_data(form: str, few: House, tmp_path: Path) -> None:
    look(few, form, tmp_path)


@pytest.mark.parametrize("form", ["hub", "classes", "alone"])
def test_pairs_are_judged(form: str, few: House, tmp_path: Path) -> None:
    judge(few, form, tmp_path)


@pytest.mark.parametrize("form", [pytest.param("rows.parquet", marks=pytest.mark.slow), "alone"])
def test_models_learn_from_files(form: str, few: House, tmp_path: Path) -> None:
    learn(few, form, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_every_command_takes_every_form(form: str, many: House, tmp_path: Path) -> None:
    for part in (look, judge, learn):
        part(many, form, tmp_path)


@pytest.mark.slow
def test_captions_of_others_are_found(many: House, tmp_path: Path) -> None:
    """A fifth of the pictures have the captions of another: as many are read, and just these captions are dropped."""
    wrong = range(0, MANY, 5)
    owner = {number: (number + 5) % MANY if number in wrong else number for number in range(MANY)}
    rows = [
        (f"{many.data['alone']}/{number:03d}.png", text) for number in range(MANY) for text in captions(owner[number])
    ]
    with (tmp_path / "noisy.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("filepath", "title"), *rows])
    words = (tmp_path / "noisy.csv", "--model", many.ideal, "--out")
    assert ask("audit", *words, tmp_path / "audit")["noise"] == pytest.approx(0.2, abs=0.01)
    cleaned = ask("clean", *words, tmp_path / "clean")
    right = MANY - len(wrong)
    assert cleaned["kept"] == {"captions": EACH * right, "images": right}
