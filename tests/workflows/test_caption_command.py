"""`equipoise caption`: pictures by file and recipe, JSON lines that go on where they were left, one-sentence errors."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from conftest import TINY_SETTINGS
from PIL import Image

import equipoise as eq
from equipoise.cli import main
from equipoise.config import dump, load_run
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.io.json_lines import JsonLines
from equipoise.models.captioning import Decoding
from equipoise.models.folder import save_model
from equipoise.reports.captions import judged_caption
from equipoise.types import UserError
from equipoise.workflows import build_model, caption
from equipoise.workflows.caption import caption_pictures


@pytest.fixture(scope="module")
def coca(tokens: CaptionTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained CoCa."""
    torch.manual_seed(0)
    loaded, folder = load_run("coca-scenes", TINY_SETTINGS), tmp_path_factory.mktemp("coca") / "model"
    save_model(build_model(loaded.run, tokens), folder, dump(loaded.table), {})
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(5):
        Image.new("RGB", (40, 30 + number), (50 * number, 255 - 50 * number, 90)).save(folder / f"{number}.png")
    return folder


def reply(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["caption", *map(str, words)])
    return code, out.getvalue(), err.getvalue()


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_lines_are_what_the_model_writes(coca, pictures, tmp_path):
    code, out, _ = reply(coca, pictures, "--out", tmp_path / "c.jsonl", "--batch-size", 2)
    model, found = eq.load(coca), lines(tmp_path / "c.jsonl")
    assert code == 0
    assert "c.jsonl" in out
    assert [one["picture"] for one in found] == [str(pictures / f"{number}.png") for number in range(5)]
    assert [one["caption"] for one in found] == model.caption([one["picture"] for one in found])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["greedy", "top_p", "beam"])
def test_work_that_was_stopped_goes_on_to_the_same_lines(coca, pictures, tmp_path, method):
    whole = caption_pictures(coca, [str(pictures)], Decoding(method), tmp_path / "whole.jsonl", batch_size=3)
    part = tmp_path / "part.jsonl"
    caption_pictures(coca, [str(pictures)], Decoding(method), part, batch_size=3)
    text = part.read_text(encoding="utf-8")
    for kept in (0, 1, 4):
        whole_lines = "".join(text.splitlines(keepends=True)[:kept])
        part.write_text(whole_lines + '{"picture": "x", "capt', encoding="utf-8")  # as a killed writer leaves it
        assert caption_pictures(coca, [str(pictures)], Decoding(method), part, batch_size=2) == whole
        assert part.read_text(encoding="utf-8") == text


def test_lines_of_other_settings_or_pictures_are_not_mixed(coca, pictures, tmp_path):
    out = tmp_path / "c.jsonl"
    assert reply(coca, pictures, "--out", out)[0] == 0
    code, _, err = reply(coca, pictures, "--out", out, "--method", "beam")
    assert code == 2
    assert "method" in err
    assert str(out) in err
    text = out.read_text(encoding="utf-8").replace("1.png", "7.png")
    out.write_text(text, encoding="utf-8")
    code, _, err = reply(coca, pictures, "--out", out)
    assert code == 2
    assert "line 2" in err


def test_data_with_captions_of_its_own_has_them_as_references(coca):
    found = caption_pictures(coca, ["coca-scenes"], Decoding(), None, overrides=[*TINY_SETTINGS, "data.test_size=3"])
    assert len(found) == 3
    assert all(one["references"] for one in found)


def test_a_picture_that_cannot_be_read_is_left_out_and_named(coca, pictures, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no picture")
    with pytest.warns(UserWarning, match="bad.png"):
        found = caption_pictures(coca, [str(pictures / "0.png"), str(bad)], Decoding(), None)
    assert len(found) == 1
    code, _, err = reply(coca, bad)
    assert code == 2
    assert "bad.png" in err
    assert "Traceback" not in err


def test_a_model_without_captions_is_told_why(finished_run, pictures):
    code, _, err = reply(finished_run, pictures)
    assert code == 2
    assert "coca" in err


@pytest.mark.parametrize(("wrong", "said"), [(("--beams", 0), "beams"), (("--batch-size", 0), "batch-size"),
                                         (("--top-p", 2), "top_p"), (("--longest", 1), "longest")])  # fmt: skip
def test_numbers_that_cannot_be_meant_are_refused(coca, pictures, wrong, said):
    code, _, err = reply(coca, pictures, *wrong)
    assert code == 2
    assert said in err


def test_a_file_that_is_no_json_lines_is_left_alone(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text("my notes\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"notes\.jsonl"):
        JsonLines(path, {})
    JsonLines(tmp_path / "other.jsonl", {"a": 1})
    for broken in ("{\n", "[1]\n"):
        (tmp_path / "other.jsonl").write_text(broken, encoding="utf-8")
        with pytest.raises(UserError, match="line 1"):
            JsonLines(tmp_path / "other.jsonl", {"a": 1})
    with pytest.raises(UserError, match="folder"):
        JsonLines(tmp_path, {})


def test_a_sheet_shows_pictures_with_what_was_written(coca, pictures, tmp_path, monkeypatch):
    drawn = []
    draw = caption.contact_sheet
    monkeypatch.setattr(caption, "contact_sheet", lambda *words, **more: (drawn.append(words), draw(*words, **more)))
    out, sheet = tmp_path / "c.jsonl", tmp_path / "there" / "sheet.png"
    code, said, _ = reply(coca, pictures, "--out", out, "--sheet", sheet)
    assert code == 0
    assert f"5 pictures with their captions are in {sheet}" in said
    with Image.open(sheet) as found:
        assert found.format == "PNG"
    images, texts, _ = drawn[0]
    assert [one for one, _ in texts] == [line["caption"] or "(no words)" for line in lines(out)]
    assert [tuple(one[:, 96, 96].tolist()) for one in images] == [(50 * n, 255 - 50 * n, 90) for n in range(5)]
    assert all(not known for _, known in texts), "nothing is known of pictures without captions"
    again = tmp_path / "again.png"
    assert reply(coca, pictures, "--out", out, "--sheet", again)[0] == 0  # all captions were there already
    assert again.read_bytes() == sheet.read_bytes()


def test_a_sheet_of_scenes_tells_what_is_true(coca, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(caption, "contact_sheet", lambda *words, **more: drawn.append(words))
    some = [*TINY_SETTINGS, "data.test_size=12"]
    found = caption_pictures(coca, ["coca-scenes"], Decoding(), None, sheet=tmp_path / "s.png", overrides=some)
    _, texts, _ = drawn[0]
    chosen = [0, 1, 3, 4, 6, 7, 9, 11]
    assert [one for one, _ in texts] == [found[number]["caption"] for number in chosen]
    source = load_run("coca-scenes", some).run.data.build("test")
    for (one, known), number in zip(texts, chosen, strict=True):
        pair = source.pair(number)
        assert known == f"{judged_caption(one, pair)[0]}. It came with: {pair.captions[0]}"


def test_a_sheet_that_cannot_be_drawn_is_told_before_the_work(coca, pictures, tmp_path):
    code, _, err = reply(coca, pictures, "--sheet", tmp_path)
    assert code == 2
    assert "name a file for --sheet" in err
    (tmp_path / "notes.txt").write_text("no folder")
    out = tmp_path / "c.jsonl"
    code, _, err = reply(coca, pictures, "--out", out, "--sheet", tmp_path / "notes.txt" / "s.png")
    assert code == 2
    assert "cannot write" in err
    assert not out.exists()
