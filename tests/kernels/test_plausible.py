"""Inputs of a contrast that give a number and cannot be meant are refused; training does not look."""

from __future__ import annotations

import math

import pytest
import torch

import equipoise as eq
from equipoise.kernels import plausible
from equipoise.kernels.scoring import Scoring
from equipoise.objectives import CLIP
from equipoise.spaces import Euclidean, ProductSphere, Sphere
from equipoise.types import Embeddings, UserError

HOW = {"target": eq.OneHot(), "form": eq.CrossEntropy()}
T = math.log(1 / 0.07)


def vectors(rows: int = 6, dim: int = 16) -> torch.Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(rows + dim)) * 3


def test_a_logit_scale_in_place_of_its_logarithm_is_refused():
    u = Sphere(16).project(vectors())
    for scale in (math.exp(T), torch.tensor(T).exp(), torch.tensor([100.0]).requires_grad_()):
        with pytest.raises(UserError, match=r"log_scale is .*leave out \.exp\(\)"):
            eq.contrast(u, u, space=Sphere(16), log_scale=scale, **HOW)
        with pytest.raises(UserError, match=r"leave out \.exp\(\)"):
            CLIP()(Embeddings(u, u), log_scale=scale, space=Sphere(16))


@pytest.mark.parametrize("space", [Sphere(16), ProductSphere(8, 2), ProductSphere(8, 2, distance="geodesic")])
def test_vectors_that_were_not_projected_are_refused_by_row(space):
    u = space.project(vectors())
    wrong = torch.cat([u[:4], vectors()[4:]])
    with pytest.raises(UserError, match=r"cols are not points .*row 4 .*space\.project\(cols\)"):
        eq.contrast(u, wrong, space=space, log_scale=T, **HOW)
    with pytest.raises(UserError, match=r"image are not points .*row 4 "):
        CLIP()(Embeddings(wrong, u), log_scale=T, space=space)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_rounding_is_no_mistake(dtype):
    for space in (Sphere(16), ProductSphere(8, 2)):
        u = space.project(vectors(64).to(dtype))
        assert eq.contrast(u, u, space=space, log_scale=math.log(999), **HOW).isfinite()


def test_any_vector_is_a_euclidean_point_and_zero_is_left_alone():
    x = vectors()
    assert eq.contrast(x, x, space=Euclidean(16), log_scale=T, **HOW).isfinite()
    assert eq.contrast(x * 0, x * 0, space=Sphere(16), log_scale=T, **HOW).isfinite()


def test_the_formula_itself_does_not_look():
    """So that no step of a run on a GPU waits for a number."""
    x = vectors()
    scoring = Scoring(Sphere(16), 14.3)
    assert CLIP().loss(Embeddings(x, x), None, scoring).total.isfinite()


def test_on_a_gpu_only_the_first_contrast_of_a_kind_of_space_is_looked_at(monkeypatch):
    class OnGpu:
        device = torch.device("cuda", 0)

    monkeypatch.setattr(plausible, "_seen_on_gpu", set())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert [plausible._is_cheap(OnGpu(), Sphere) for _ in range(3)] == [True, False, False]
    assert plausible._is_cheap(OnGpu(), Euclidean)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not plausible._is_cheap(OnGpu(), ProductSphere)


def test_compiled_code_is_not_broken_by_the_look():
    x = Sphere(16).project(vectors())

    def checked(u: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        plausible.require_plausible({"rows": u}, Sphere(16), t)
        return (t.exp() * u @ u.T).sum()

    compiled = torch.compile(checked, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x, torch.tensor(T)), checked(x, torch.tensor(T)))
