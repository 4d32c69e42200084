"""Distances against a brute-force search for the nearest point of the edge."""

import math

import pytest
import torch

from equipoise.data.scenes.language.vocabulary import SHAPES
from equipoise.data.scenes.rendering.sdf import DISTANCE, STROKE
from equipoise.data.scenes.world import OPENINGS

SHAPE_NAMES = tuple(SHAPES)
INSIDE = {
    "circle": (0.7, 0.7), "ring": (0.8, 0.0), "square": (0.68, 0.68), "triangle": (0.0, -0.9), "diamond": (0.0, 0.95),
    "hexagon": (0.95, 0.0), "cross": (0.0, 0.9), "star": (0.0, -0.95), "heart": (0.4, -0.4), "crescent": (-0.7, 0.0),
    "drop": (0.0, 0.4), "arrow": (0.9, 0.0), "fish": (-0.2, 0.0), "tree": (0.0, 0.9), "flower": (0.0, -0.9),
    "house": (0.48, -0.7),
}  # fmt: skip
OUTSIDE = {
    "circle": (0.72, 0.72), "ring": (0.0, 0.0), "square": (0.75, 0.0), "triangle": (0.0, 0.6), "diamond": (0.6, 0.5),
    "hexagon": (0.8, 0.8), "cross": (0.6, 0.6), "star": (0.0, 0.6), "heart": (0.0, -0.9), "crescent": (0.5, 0.0),
    "drop": (0.6, -0.6), "arrow": (-0.5, 0.5), "fish": (-0.6, -0.1), "tree": (0.6, -0.5), "flower": (0.0, 0.0),
    "house": (0.0, 0.6),
}  # fmt: skip


def grid(n: int, reach: float = 1.1) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.linspace(-reach, reach, n, dtype=torch.float64)
    y, x = torch.meshgrid(at, at, indexing="ij")
    return x.reshape(-1), y.reshape(-1)


def edge_points(name: str, n: int = 700) -> torch.Tensor:
    """Points of the edge: where the sign changes between neighbours of a fine grid."""
    x, y = (v.view(n, n) for v in grid(n))
    inside = DISTANCE[name](x.reshape(-1), y.reshape(-1)).view(n, n) < 0
    across, down = inside[:, 1:] ^ inside[:, :-1], inside[1:] ^ inside[:-1]
    between = [((x[:, 1:] + x[:, :-1]) / 2)[across], ((x[1:] + x[:-1]) / 2)[down]]
    level = [((y[:, 1:] + y[:, :-1]) / 2)[across], ((y[1:] + y[:-1]) / 2)[down]]
    return torch.stack([torch.cat(between), torch.cat(level)], dim=1)


def test_every_shape_has_a_distance_and_a_stroke() -> None:
    assert set(DISTANCE) == set(STROKE) == set(SHAPES)


@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_known_points(name: str) -> None:
    (ax, ay), (bx, by) = INSIDE[name], OUTSIDE[name]
    inside, outside = DISTANCE[name](torch.tensor([ax, bx]), torch.tensor([ay, by])).tolist()
    assert inside < 0 < outside


@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_value_near_the_edge_is_the_distance_to_it(name: str) -> None:
    torch.manual_seed(0)
    x, y = (torch.rand(2, 6000, dtype=torch.float64) * 2.2 - 1.1).unbind()
    value = DISTANCE[name](x, y)
    near = value.abs() < 0.06
    nearest = torch.cdist(torch.stack([x, y], dim=1)[near], edge_points(name)).amin(dim=1)
    error = (value[near].abs() - nearest).abs()
    assert error.quantile(0.95) < 0.005
    assert (value[near].abs() <= nearest + 0.005).all()  # at corners a bound, never more than the distance


@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_gradient_has_norm_one_near_the_edge(name: str) -> None:
    torch.manual_seed(0)
    x, y = (torch.rand(2, 6000, dtype=torch.float64) * 2.2 - 1.1).unbind()
    x.requires_grad_()
    y.requires_grad_()
    value = DISTANCE[name](x, y)
    gx, gy = torch.autograd.grad(value.sum(), (x, y))
    norm = torch.hypot(gx, gy)[value.abs() < 0.06]
    assert len(norm) > 100
    assert ((norm - 1).abs() < 1e-6).double().mean() > 0.99


@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_fills_the_unit_disc_and_no_more(name: str) -> None:
    x, y = grid(501)
    value = DISTANCE[name](x, y)
    length = torch.hypot(x, y)
    assert (value[length > 1.003] > 0).all()
    assert length[value < 0].max() > 0.95


@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_outline_leaves_an_open_inside(name: str) -> None:
    value = DISTANCE[name](*grid(401))
    open_share = (value < -STROKE[name]).double().sum() / (value < 0).double().sum()
    assert open_share > 0.1


@pytest.mark.parametrize("name", sorted(OPENINGS))
def test_openings_of_holders_are_free(name: str) -> None:
    x, y = grid(401)
    middle = torch.hypot(x, y) <= OPENINGS[name]
    value = DISTANCE[name](x, y)[middle]
    assert (value > -1e-9).all() if name == "ring" else (value <= -STROKE[name]).all()


def test_house_is_not_mirrored_but_the_tree_is() -> None:
    x, y = grid(101)
    assert torch.equal(DISTANCE["tree"](x, y), DISTANCE["tree"](-x, y))
    assert not torch.allclose(DISTANCE["house"](x, y), DISTANCE["house"](-x, y))


def test_star_keeps_its_look_under_a_fifth_of_a_turn() -> None:
    x, y = grid(101)
    turn = 2 * math.pi / 5
    turned_x, turned_y = math.cos(turn) * x - math.sin(turn) * y, math.sin(turn) * x + math.cos(turn) * y
    torch.testing.assert_close(DISTANCE["star"](x, y), DISTANCE["star"](turned_x, turned_y), atol=1e-9, rtol=0)
