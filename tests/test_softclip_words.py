"""benchmarks/softclip_words.py: the same maps as `explain` gives, the share of hits, a picture of either kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import softclip_words
from PIL import Image

from equipoise.analysis.explain import explain
from equipoise.workflows.load import load


@pytest.mark.slow
def test_nouns_of_a_picture_of_ones_own(finished_run: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    words = [str(finished_run), str(finished_run), "--out", str(tmp_path / "out" / "words.png")]
    found = softclip_words.main([*words, "--image", str(tmp_path / "a.png"), "--words", "a fish", "a star", "a tree"])
    assert [one.noun for one in found.asked] == ["a fish", "a star", "a tree"]
    assert found.hits == [None, None]
    model = load(finished_run)
    for noun, places in zip(("a fish", "a star", "a tree"), found.maps[0], strict=True):
        expected = explain(model, tmp_path / "a.png", noun, "grad_cam").places
        np.testing.assert_allclose(places, expected, atol=1e-6)
    with Image.open(tmp_path / "out" / "words.png") as picture:
        assert picture.width > picture.height  # the picture, and two maps of each noun
    with pytest.raises(SystemExit):
        softclip_words.main([*words, "--image", str(tmp_path / "a.png")])


@pytest.mark.slow
def test_names_of_scenes_are_pointed_at_or_not(finished_run: Path, tmp_path: Path, capsys) -> None:
    words = [str(finished_run), str(finished_run), "--data", "demo", "--asked", "12", "--pictures", "2"]
    found = softclip_words.main([*words, "--out", str(tmp_path / "words.png")])
    assert len(found.asked) == 12
    assert found.hits[0] == found.hits[1]
    side = found.maps[0].shape[-1]
    hits = []
    for one, places in zip(found.asked, found.maps[0], strict=True):
        best = np.argwhere(places == places.max())
        left, top, right, bottom = one.box
        touching = [
            column < right * side and column + 1 > left * side and row < bottom * side and row + 1 > top * side
            for row, column in best
        ]
        hits.append(np.mean(touching))
    assert found.hits[0] == pytest.approx(np.mean(hits), abs=1e-6)
    assert "12 names" in capsys.readouterr().out
