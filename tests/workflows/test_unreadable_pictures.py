"""One picture that cannot be read, of training data that is looked at whole: it is said, and all else is done."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from captioned_pictures import write_captioned
from class_pictures import SMALL

from equipoise.cli import main
from equipoise.config import load_run
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.keep.file import TABLE, UNREADABLE, KeepTable, read_keep
from equipoise.data.unreadable_pictures import GREY, BlankPictures, readable_pictures
from equipoise.reports.curate_page import PAGE
from equipoise.types import UserError
from equipoise.workflows import run_recipe
from equipoise.workflows.clean.unreadable import said_of, without_picture

BAD = 5
COUNT = 48
GONE = [2 * BAD, 2 * BAD + 1, 2 * BAD + 2, 2 * BAD + 3]  # the captions of the two


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 pictures, one of them broken and one of them missing."""
    folder = write_captioned(tmp_path_factory.mktemp("data"), COUNT)
    (folder / "images" / f"{BAD:02d}.png").write_bytes(b"no picture")
    (folder / "images" / f"{BAD + 1:02d}.png").unlink()
    path = folder / "recipe.toml"
    table = 'name = "table"\npath = "image"\ncaptions = "caption"\n'
    files = f'train = "{folder}/pairs.csv"\nvalidation = "{folder}/pairs.csv"\n'
    path.write_text(f'extends = "files"\nname = "pictures"\n[data]\n{table}{files}')
    return path


@pytest.fixture(scope="module")
def run(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    assert run_recipe(str(recipe), [*SMALL, "training.steps=2"], out, "") == 0
    return out


def test_grey_stands_for_them_and_is_no_copy(recipe: Path) -> None:
    source = BlankPictures(load_run(recipe).run.data.build("train"))
    watched = WatchedSource(source)
    with pytest.warns(UserWarning, match=r"pairs\.csv, line 12: .* judged as a grey picture"):
        found = watched.images(range(COUNT), 8)
    assert found.shape == (COUNT, 3, 8, 8)
    assert source.unreadable == {BAD, BAD + 1}
    assert (found[[BAD, BAD + 1]] == GREY).all()
    assert torch.equal(found[0], source.source.images([0], 8)[0])
    assert not {BAD, BAD + 1} & {number for copy in watched.copies() for number in (copy.first, copy.second)}


def test_too_many_are_refused(recipe: Path) -> None:
    source = load_run(recipe, ["data.max_bad=1.0"]).run.data.build("train")
    source.max_bad = 0.0
    with pytest.raises(UserError, match="cannot be used"), pytest.warns(UserWarning, match="grey"):
        BlankPictures(source).images(range(COUNT), 8)
    with pytest.raises(UserError, match="2 of 48 records cannot be used"):
        readable_pictures(source)


def test_pairs_are_judged_all_the_same(recipe: Path, run: Path, tmp_path: Path, capsys) -> None:
    assert main(["audit", str(recipe), "--model", str(run), "--out", str(tmp_path / "out")]) == 0
    assert "grey picture" in capsys.readouterr().err
    rows = (tmp_path / "out" / "pairs.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 2 * COUNT + 1


def test_captions_without_a_picture_are_told_apart(recipe: Path) -> None:
    source = BlankPictures(load_run(recipe).run.data.build("train"))
    owners = np.repeat(np.arange(COUNT), 2)
    assert not without_picture(source, owners).any(), "none was asked for yet"
    with pytest.warns(UserWarning, match="grey"):
        source.images(range(COUNT), 8)
    gone = without_picture(source, owners)
    assert np.flatnonzero(gone).tolist() == GONE
    assert not without_picture(source.source, owners).any()

    each, right = [f"{owner}.png" for owner in owners], np.linspace(1, 0, len(owners))
    right[3] = np.nan
    keep = ~gone
    table = said_of(KeepTable(each, owners % 2, owners, right, keep, keep * 1.0, ["likely"] * len(owners)), gone)
    assert [row for row, kind in enumerate(table.kinds) if kind == UNREADABLE] == GONE
    assert {table.reasons[row] for row in GONE} == {"its picture cannot be read"}
    assert set(table.suspicious().tolist()) == set(range(len(owners))) - {3, *GONE}
    assert table.suspicious()[0] == len(owners) - 1


@pytest.fixture(scope="module")
def judge(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows the pictures by heart."""
    out = tmp_path_factory.mktemp("judge")
    longer = ["training.steps=200", "training.learning_rate=3e-3", "training.evaluate_every=200"]
    assert run_recipe(str(recipe), [*SMALL, *longer], out, "") == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["threshold", "share", "weights"])
def test_they_are_dropped_whatever_grey_looks_like(
    rule: str, recipe: Path, judge: Path, tmp_path: Path, capsys
) -> None:
    words = ["clean", str(recipe), "--model", str(judge), "--set", f"clean.rule={rule}", "--set", "clean.share=0.1"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert "those of 2 images for want of a picture that can be read" in said.out
    assert "grey picture" in said.err
    table, note = read_keep(tmp_path / "out")
    assert not table.keep[GONE].any()
    assert not table.weight[GONE].any()
    assert not table.right[GONE].any()
    assert note["unreadable"] == {"images": 2}
    assert (~table.keep).sum() == (10 if rule == "share" else 4), "with a share, the rest of it is of the least likely"
    page = (tmp_path / "out" / PAGE).read_text(encoding="utf-8")
    shown = page.count("data:image/jpeg")
    assert shown >= 92, "all captions with a picture, and false negatives"
    assert page.count('class="picture"') == shown
    assert "no picture to show" not in page

    assert main([*words, "--processes", "2", "--out", str(tmp_path / "shared")]) == 0
    assert (tmp_path / "shared" / TABLE).read_bytes() == (tmp_path / "out" / TABLE).read_bytes()


def test_judges_are_trained_without_them(recipe: Path, tmp_path: Path, capsys) -> None:
    words = [word for setting in (*SMALL, "training.steps=2") for word in ("--set", setting)]
    assert main(["audit", str(recipe), "--out", str(tmp_path / "out"), *words]) == 0
    assert "grey picture" in capsys.readouterr().err


def test_the_training_split_is_measured_and_shifted_without_them(
    recipe: Path, run: Path, tmp_path: Path, capsys
) -> None:
    assert main(["eval", str(run), str(recipe), "--split", "train", "--json"]) == 0
    found, said = capsys.readouterr()
    assert json.loads(found)["results"]["retrieval"]["metrics"]["image_to_text_queries"] == COUNT - 2
    assert "2 of 48 records are left out" in said
    assert main(["shift", str(run), str(recipe), "--out", str(tmp_path / "shifted")]) == 0
    assert "2 of 48 records are left out" in capsys.readouterr().err


def test_embedding_counts_what_it_wrote(recipe: Path, run: Path, tmp_path: Path, capsys) -> None:
    assert main(["embed", str(run), str(recipe), "--out", str(tmp_path / "features"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == COUNT - 2
