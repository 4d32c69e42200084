"""The map of codes by modality: principal components of all codes together, drawn with a mark for each kind."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equipoise.io.figures import svg
from equipoise.reports.modal_map import LINES, draw_modal_map, make_modal_map
from equipoise.spaces import Sphere
from equipoise.types import UserError


def codes(n: int = 30) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    joint = torch.randn(n, 6, generator=draw)
    near = {name: joint + size * torch.randn(n, 6, generator=draw) for name, size in (("text", 0.1), ("audio", 1.0))}
    return {name: Sphere(6).project(x) for name, x in (near | {"joint": joint}).items()}


def test_places_are_principal_components_of_all_codes_together():
    decomposition = pytest.importorskip("sklearn.decomposition")
    given = codes()
    found = make_modal_map(given, Sphere(6))
    pca = decomposition.PCA(2)
    expected = pca.fit_transform(torch.cat(list(given.values())).double().numpy())
    places = np.concatenate([found.places[name] for name in given])
    for axis in range(2):
        sign = np.sign(places[:, axis] @ expected[:, axis])  # free
        np.testing.assert_allclose(places[:, axis], sign * expected[:, axis], atol=1e-9)
        assert f"{100 * pca.explained_variance_ratio_[axis]:.0f}%" in found.axes[axis]
    gaps = {name: np.linalg.norm(found.places[name] - found.places["joint"], axis=1).mean() for name in given}
    assert gaps["text"] < gaps["audio"]


def test_every_kind_has_a_mark_and_lines_lead_to_the_joint_code():
    figure = draw_modal_map(make_modal_map(codes(), Sphere(6)))
    (axes,) = figure.axes
    marked = {
        line.get_label(): (line.get_color(), line.get_marker()) for line in axes.lines if line.get_marker() != "None"
    }
    assert marked.keys() == {"text", "audio", "joint"}
    assert len(set(marked.values())) == 3
    assert sum(line.get_marker() == "None" for line in axes.lines) == 2 * LINES
    assert "audio" in svg(figure, "codes")
    alone = {name: code for name, code in codes().items() if name != "joint"}
    (axes,) = draw_modal_map(make_modal_map(alone, Sphere(6))).axes
    assert all(line.get_marker() != "None" for line in axes.lines)


def test_many_samples_are_thinned_and_too_few_are_no_map():
    found = make_modal_map(codes(1000), Sphere(6), samples=40)
    assert all(places.shape == (40, 2) for places in found.places.values())
    assert make_modal_map(codes(1), Sphere(6)) is None
    with pytest.raises(UserError, match="same samples"):
        make_modal_map(codes() | {"video": torch.zeros(4, 6)}, Sphere(6))
