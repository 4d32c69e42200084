"""`equipoise explain` and `model.explain` as a person meets them: a picture, numbers, one sentence for a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

import equipoise as eq
from equipoise.analysis.explain.parts import largest_parts
from equipoise.cli import main
from equipoise.types import UserError
from equipoise.workflows import run_recipe

CODES = ("readout.codes=24", "readout.scale=0.01")  # nearly all are active in everything
RUNS = {  # recipe, settings, how many numbers a part has, how many places a side has
    "code": ("fdt-scenes", CODES, 1, 4),
    "code, swin": ("fdt-swin-scenes", CODES, 1, 4),
    "pair of tokens": ("filip-scenes", (), 2, 4),
    "class token": ("scenes-multi-64x8", ("space.n=4", "space.m=4"), 1, 4),
    "resnet": ("demo", ("image.name=resnet-nano",), 0, 1),
    "swin": ("fdt-swin-scenes", ("readout.name=class_token",), 0, 4),
}


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.effect_noise((60, 40), 90).convert("RGB").save(path)
    return path


def mistake(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one sentence of a call that fails."""
    assert main(["explain", *map(str, words)]) == 2
    told = capsys.readouterr().err.strip()
    assert "\n" not in told
    return told


def test_a_pair_is_drawn_and_written(finished_run, photo, tmp_path, capsys) -> None:
    text, out = "a red fish, and a\nstar", tmp_path / "out"
    assert main(["explain", str(finished_run), "--image", str(photo), "--text", text, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "fish" in printed
    record = json.loads((out / "explanation.json").read_text())
    assert record["method"] == "gradient_attention"
    assert sum(map(sum, record["places"])) == pytest.approx(1)
    assert [word["text"] for word in record["words"]] == ["a", "red", "fish", "and", "a", "star"]
    assert all(text[word["start"] : word["stop"]] == word["text"] for word in record["words"])
    assert sum(word["relevance"] for word in record["words"]) == pytest.approx(1)
    with Image.open(out / "explanation.png") as picture:
        assert picture.width > 600
        assert len(set(picture.convert("L").resize((64, 64)).getdata())) > 8
    model = eq.load(finished_run)
    found = model.explain(photo, text)
    assert found.as_table()["places"] == record["places"]
    expected = model.similarity(model.encode_image(photo), model.encode_text(text)).item()
    assert found.similarity == pytest.approx(expected, abs=1e-6)
    assert found.places.shape == (len(record["places"]),) * 2


def test_every_method_by_name(finished_run, photo, tmp_path) -> None:
    for method in ("legrad", "grad_eclip", "grad_cam", "rollout"):
        words = ["--image", str(photo), "--text", "a tree", "--method", method, "--out", str(tmp_path / method)]
        assert main(["explain", str(finished_run), *words]) == 0
        assert json.loads((tmp_path / method / "explanation.json").read_text())["method"] == method


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_towers_and_parts_of_trained_runs(name: str, photo, tmp_path, tiny_settings) -> None:
    recipe, further, numbers, side = RUNS[name]
    own_width = any("swin" in word or "resnet" in word for word in (recipe, *further))
    tiny = [one for one in tiny_settings if not (own_width and one.startswith("image.")) and "space.dim" not in one]
    run, out = tmp_path / "run", tmp_path / "out"
    assert run_recipe(recipe, (*tiny, *further), run, command="equipoise train") == 0
    words = ["--image", str(photo), "--text", "a red fish", "--out", str(out)]
    assert main(["explain", str(run), *words, *(["--part", "all"] if numbers else [])]) == 0
    record = json.loads((out / "explanation.json").read_text())
    assert record["method"] == ("grad_cam" if "swin" in name else "gradient_attention")
    model = eq.load(run)
    assert model.explain(photo, "a red fish").as_table()["places"] == record["places"]
    assert [len(row) for row in record["places"]] == [side] * side
    parts = record.get("parts", [])
    assert bool(parts) == bool(numbers)
    for part in parts:
        assert len(part["part"]) == numbers
        assert model.explain(photo, "a red fish", part=part["part"]).similarity == pytest.approx(part["similarity"])
        assert main(["explain", str(run), *words, "--part", ",".join(map(str, part["part"]))]) == 0
        assert json.loads((out / "explanation.json").read_text())["places"] == part["places"]


def test_a_pair_without_a_common_code_is_told(fdt_run, tmp_path, capsys) -> None:
    photo, model = tmp_path / "red.png", eq.load(fdt_run)
    Image.new("RGB", (40, 40), "red").save(photo)
    texts = ["a fish", "a red star", "two trees", "a tiny blue cross", "green", "a heart is left of a square", "white"]
    common = {text: largest_parts(model, photo, text) for text in texts}
    text = next(text for text in texts if not common[text])
    words = ["--image", str(photo), "--part", "all", "--out", str(tmp_path / "out")]
    assert main(["explain", str(fdt_run), *words, "--text", text]) == 0
    assert "No code is active in both" in capsys.readouterr().out
    if other := next((text for text in texts if common[text]), ""):
        assert main(["explain", str(fdt_run), *words, "--text", other]) == 0
        assert "No code is active in both" not in capsys.readouterr().out


def test_methods_of_the_command_are_those_of_the_package() -> None:
    from equipoise.analysis.explain import AUTO, METHODS
    from equipoise.cli.explain import METHODS as OFFERED

    assert (AUTO, *METHODS) == OFFERED


def test_scores_on_scenes(finished_run, tmp_path, capsys) -> None:
    words = [str(finished_run), "--score", "--pairs", "6", "--method", "grad_cam", "--out", str(tmp_path)]
    assert main(["explain", *words]) == 0
    assert "pointing" in capsys.readouterr().out
    record = json.loads((tmp_path / "explain.json").read_text())
    assert set(record["found"]) == {"grad_cam", "random", "untrained"}
    assert 0 < record["pairs"] <= 6
    for one in record["found"].values():
        assert all(0 <= one[name] <= 1 for name in ("pointing", "energy", "pointing_other", "word_hits", "word_energy"))
    again = tmp_path / "again"
    assert main(["explain", *words[:-1], str(again)]) == 0
    other = json.loads((again / "explain.json").read_text())
    for one in (*record["found"].values(), *other["found"].values()):
        del one["milliseconds"]
    assert record["found"] == other["found"]


def test_mistakes_are_one_sentence(finished_run, photo, tmp_path, capsys) -> None:
    pair = ("--image", photo, "--text", "a fish", "--out", tmp_path / "out")
    assert "--image" in mistake(capsys, finished_run)
    assert "--text" in mistake(capsys, finished_run, "--image", photo)
    text = tmp_path / "note.jpg"
    text.write_text("no picture")
    assert "note.jpg" in mistake(capsys, finished_run, "--image", text, "--text", "a fish")
    assert "missing.jpg" in mistake(capsys, finished_run, "--image", tmp_path / "missing.jpg", "--text", "a fish")
    assert "empty" in mistake(capsys, finished_run, "--image", photo, "--text", " ")
    assert "no parts" in mistake(capsys, finished_run, *pair, "--part", "1")
    assert "no parts" in mistake(capsys, finished_run, *pair, "--part", "all")
    assert "--part" in mistake(capsys, finished_run, *pair, "--part", "one")
    assert "--score" in mistake(capsys, finished_run, "demo", *pair)
    assert "--score" in mistake(capsys, finished_run, "--score", *pair)
    assert "--pairs" in mistake(capsys, finished_run, "--score", "--pairs", "0")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="no method 'gradcam'"):
        eq.load(finished_run).explain(photo, "a fish", method="gradcam")
