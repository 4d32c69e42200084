"""benchmarks/consistency.py: the differences that it draws and counts are those of the points, pair by pair."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import consistency
import numpy as np
import pytest
from conftest import TINY_SETTINGS
from PIL import Image

from equipoise.config import load_run
from equipoise.types import UserError
from equipoise.workflows import load


def test_differences_are_those_of_every_pair_of_pairs(finished_run: Path, tmp_path: Path, capsys):
    out = tmp_path / "there" / "c.png"
    found = consistency.main([str(finished_run), str(finished_run), "--pairs", "5", "--out", str(out)])
    source, model = load_run("demo", TINY_SETTINGS).run.data.build("test"), load(finished_run)
    images = model.encode_image(source.images(range(16), model.preprocess.side)).double()
    texts = model.encode_text([source.pair(index).captions[0] for index in range(16)]).double()
    within = across = 0.0
    for i in range(16):
        for j in range(16):
            within += float(images[i] @ images[j] - texts[i] @ texts[j]) ** 2
            across += float(images[i] @ texts[j] - images[j] @ texts[i]) ** 2
    one = found[0]
    assert one.in_modal == pytest.approx(math.sqrt(within) / 16, abs=1e-5)
    assert one.cross_modal == pytest.approx(math.sqrt(across) / 16, abs=1e-5)
    others = [(i, j) for i in range(16) for j in range(16) if i != j]
    near = [[float(points[i] @ points[j]) for i, j in others] for points in (images, texts)]
    assert one.correlation == pytest.approx(statistics.correlation(*near), abs=1e-4)
    shown = consistency.by_class(source, 5)
    labelled = [index for index in range(16) if source.pair(index).label]
    assert sorted(shown) == labelled[:5]
    names = [str(source.pair(index).label) for index in shown]
    assert names == sorted(names)
    np.testing.assert_allclose(one.images, (images[shown] @ images[shown].T).numpy(), atol=1e-5)
    np.testing.assert_allclose(one.texts, (texts[shown] @ texts[shown].T).numpy(), atol=1e-5)
    np.testing.assert_allclose(one.across, (images[shown] @ texts[shown].T).numpy(), atol=1e-5)
    assert f"{one.in_modal:.3f}" in capsys.readouterr().out
    with Image.open(out) as picture:
        assert picture.width > picture.height


def test_data_without_classes_is_told(scenes):
    class Plain:
        def __len__(self) -> int:
            return len(scenes)

        def pair(self, index: int):
            return scenes.pair(index)

    with pytest.raises(UserError, match="no classes"):
        consistency.by_class(Plain(), 3)
