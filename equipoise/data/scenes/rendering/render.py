"""Scenes to pixels, in batches, by signed distances.

    picture = background, then thing after thing: coverage from the distance to its edge, ink from its texture, contour

Only the pixels of each thing's own rectangle are computed. They lie in one flat list for the whole batch, ordered by
shape and texture, so that each formula runs once on a contiguous slice, whatever the rectangles' sizes. Every step goes
pixel by pixel: a scene looks the same in any batch. The same code runs on a CPU or a GPU.

Legend: N scenes, T things, P pixels of all the things' rectangles together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from equipoise.data.scenes.language.vocabulary import COLOURS
from equipoise.data.scenes.rendering.backgrounds import levels, paint
from equipoise.data.scenes.rendering.sdf import DISTANCE, STROKE
from equipoise.data.scenes.rendering.textures import TEXTURE
from equipoise.data.scenes.scene import Scene, Thing

CHUNK = {"cpu": 2**20, "cuda": 2**25}  # image pixels worked on at once: what fits a cache, what fills a GPU
CONTOUR = 0.07  # width of a contour as a share of the radius; an outline gets half of it
VEIL = 0.3  # how strongly a surface without ink dims or lights up what is behind it

Placed = tuple[int, int, Thing]  # scene, layer, thing


@dataclass(frozen=True)
class Pixels:
    """All pixels of all rectangles in one flat list."""

    thing: Tensor  # [P] number of the thing
    place: Tensor  # [P] where the pixel's red lies in the flat canvas
    x: Tensor  # [P] in the thing's own frame
    y: Tensor  # [P]
    radius: Tensor  # [P] of the thing, in pixels: turns distances into pixels


def render(scenes: Sequence[Scene], size: int, device: torch.device | str = "cpu") -> Tensor:
    """Pictures of the scenes: uint8 [N, 3, size, size] on `device`."""
    device = torch.device(device)
    images = torch.empty(len(scenes), 3, size, size, dtype=torch.uint8, device=device)
    step = max(1, CHUNK.get(device.type, CHUNK["cuda"]) // size**2)
    for start in range(0, len(scenes), step):
        images[start : start + step] = _render(scenes[start : start + step], size, device)
    return images


def _render(scenes: Sequence[Scene], size: int, device: torch.device) -> Tensor:
    canvas = paint([scene.background for scene in scenes], size, device)
    placed = [(n, layer, thing) for n, scene in enumerate(scenes) for layer, thing in enumerate(scene.things)]
    if placed:
        placed.sort(key=lambda entry: (entry[2].shape, entry[2].texture))
        pixels, counts = _spread(placed, size, device)
        _composite(canvas, placed, pixels, *_distances(placed, counts, pixels))
    return canvas.to(torch.uint8)


def _spread(placed: Sequence[Placed], size: int, device: torch.device) -> tuple[Pixels, np.ndarray]:
    """The pixels of every thing's rectangle, and how many each thing has."""
    scene = np.array([n for n, _, _ in placed])
    angle = np.array([t.angle for _, _, t in placed])
    x, y, radius = np.array([(t.x, t.y, t.radius) for _, _, t in placed]).T * size
    left, right, top, bottom = (
        np.clip(side, 0, size).astype(np.int64)
        for side in (np.floor(x - radius), np.ceil(x + radius), np.floor(y - radius), np.ceil(y + radius))
    )
    width, counts = right - left, (right - left) * (bottom - top)
    thing = torch.repeat_interleave(torch.from_numpy(counts).to(device))
    first, origin = (
        _on(device, whole).index_select(0, thing)
        for whole in (np.cumsum(counts) - counts, scene * (3 * size**2) + top * size + left)
    )
    a, b = np.cos(angle) / radius, np.sin(angle) / radius
    dx, dy = left + 0.5 - x, top + 0.5 - y  # from the thing's centre to its first pixel
    frame = np.stack([a, b, a * dx + b * dy, a * dy - b * dx, radius, width]).astype(np.float32)
    a_P, b_P, x_P, y_P, radius_P, width_P = _on(device, frame).index_select(1, thing)
    number = (torch.arange(len(thing), device=device) - first).to(torch.float32)
    row = torch.floor((number + 0.5) / width_P)
    column = number - row * width_P
    place = origin + (row * size + column).to(torch.int64)
    return Pixels(thing, place, a_P * column + b_P * row + x_P, a_P * row - b_P * column + y_P, radius_P), counts


def _on(device: torch.device, array: np.ndarray) -> Tensor:
    return torch.from_numpy(array).to(device)


def _distances(placed: Sequence[Placed], counts: np.ndarray, pixels: Pixels) -> tuple[Tensor, Tensor]:
    """[P] signed distances in pixels to shapes' edges and to their ink: one slice per shape, in it one per texture."""
    edge, ink = torch.empty_like(pixels.x), torch.empty_like(pixels.x)
    ends = [0, *np.cumsum(counts).tolist()]
    numbers = range(len(placed))
    for shape, same in groupby(numbers, key=lambda i: placed[i][2].shape):
        members = list(same)
        of_shape = slice(ends[members[0]], ends[members[-1] + 1])
        edge[of_shape] = DISTANCE[shape](pixels.x[of_shape], pixels.y[of_shape])
        for texture, alike in groupby(members, key=lambda i: placed[i][2].texture):
            twins = list(alike)
            of_both = slice(ends[twins[0]], ends[twins[-1] + 1])
            ink[of_both] = TEXTURE[texture](pixels.x[of_both], pixels.y[of_both], edge[of_both], STROKE[shape])
    return edge.mul_(pixels.radius), ink.mul_(pixels.radius)


def _composite(canvas: Tensor, placed: Sequence[Placed], pixels: Pixels, edge: Tensor, ink: Tensor) -> None:
    """Paint the things over the canvas, layer by layer; `edge` and `ink` are distances in pixels."""
    paints = _paints([thing for _, _, thing in placed], canvas.shape[-1]).to(canvas.device)
    layers = [layer for _, layer, _ in placed]
    layer = torch.tensor(layers, device=canvas.device).index_select(0, pixels.thing)
    flat, plane = canvas.view(-1), canvas.shape[-1] ** 2
    for number in range(max(layers) + 1):
        here = ((layer == number) & (edge < 0.5)).nonzero()[:, 0]
        paint_here = paints.index_select(1, pixels.thing.index_select(0, here))
        colour, contour, tone, (veil, border) = paint_here.split((3, 3, 1, 2))
        outside = edge.index_select(0, here)
        covered = _coverage(outside)
        rim = covered * _coverage(-outside - border)
        filled = (covered - rim) * _coverage(ink.index_select(0, here))
        veiled = (covered - rim - filled) * veil
        clear, shade = 1 - rim - filled - veiled, veiled * tone[0]
        place = pixels.place.index_select(0, here)
        for channel in range(3):
            at = place + channel * plane
            over = contour[channel] * rim + colour[channel] * filled + shade
            flat.index_copy_(0, at, flat.index_select(0, at).mul_(clear).add_(over))


def _coverage(distance: Tensor) -> Tensor:
    """The share of a pixel that lies inside, from the signed distance of its centre in pixels."""
    return (0.5 - distance).clamp_(0, 1)


def _paints(things: Sequence[Thing], size: int) -> Tensor:
    """[9, T] levels of colour, contour and veil; strength of the veil and width of the contour in pixels."""
    colour = torch.tensor([[*COLOURS[t.colour][1], *t.tint] for t in things]).T
    colour = (colour[:3] + colour[3:]).clamp_(0, 1)
    light = 0.3 * colour[:1] + 0.59 * colour[1:2] + 0.11 * colour[2:]
    contour = colour * 0.45  # darker than any background: it holds a striped shape together
    rest = [
        (0.0, CONTOUR / 2 * size * t.radius) if t.texture == "outlined" else (VEIL, CONTOUR * size * t.radius)
        for t in things
    ]
    return torch.cat([levels(torch.cat([colour, contour, (light < 0.57).float()])), torch.tensor(rest).T])
