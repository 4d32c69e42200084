"""Copies of pictures: planted ones are found, strangers are not, and no pair is looked for among all."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise.data.copies import candidates, find
from equipoise.data.copies.candidates import sharing_a_band
from equipoise.data.copies.find import Copy, find_copies
from equipoise.data.copies.signature import Signatures
from equipoise.data.copies.views import VIEWS, view
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.remap import subset
from equipoise.data.scenes import Scenes
from equipoise.data.scenes.noise import Noise
from equipoise.data.source import can_crop, has_features, is_judged

SIZE, COUNT = 64, 60


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    """Smooth random pictures, uint8 [COUNT, 3, SIZE, SIZE], no two alike."""
    coarse = torch.rand(COUNT, 3, 7, 7, generator=torch.Generator().manual_seed(0)) * 255
    return torch.nn.functional.interpolate(coarse, (SIZE, SIZE), mode="bicubic").clamp(0, 255).to(torch.uint8)


def compressed(image: Image.Image) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=30)
    return Image.open(buffer).convert("RGB")


CHANGES = {
    "compressed": compressed,
    "half as large": lambda image: image.resize((SIZE // 2, SIZE // 2), Image.Resampling.BILINEAR),
    "brighter": lambda image: image.point([min(int(level * 1.15), 255) for level in range(256)] * 3),
    "cropped": lambda image: image.crop((0, 6, 58, 64)),
    "mirrored": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "turned and cropped": lambda image: image.rotate(2, Image.Resampling.BICUBIC).crop((3, 3, 61, 61)),
}


def changed(picture: torch.Tensor, change: str) -> torch.Tensor:
    image = CHANGES[change](Image.fromarray(picture.permute(1, 2, 0).numpy()))
    return torch.from_numpy(np.array(image.resize((SIZE, SIZE), Image.Resampling.BICUBIC))).permute(2, 0, 1)


@pytest.mark.parametrize("change", CHANGES)
def test_changed_copies_are_found_and_nothing_else(pictures, change):
    planted = torch.stack([changed(picture, change) for picture in pictures[:10]])
    found = find_copies(Signatures.of(torch.cat([pictures, planted])))
    assert {(copy.first, copy.second) for copy in found} == {(number, COUNT + number) for number in range(10)}
    assert all(0.75 <= copy.similarity <= 1.001 and not copy.exact for copy in found)


def test_the_same_pixels_are_exact_and_come_first(pictures):
    found = find_copies(Signatures.of(torch.cat([pictures, pictures[3:4], changed(pictures[5], "brighter")[None]])))
    assert found[0] == Copy(3, COUNT, 1.0, exact=True)
    assert [(copy.first, copy.second, copy.exact) for copy in found[1:]] == [(5, COUNT + 1, False)]


def test_another_colour_is_another_picture(pictures):
    found = find_copies(Signatures.of(torch.cat([pictures, pictures[:5].flip(1)])))
    assert found == []


def test_flat_pictures_are_copies_only_where_they_are_equal():
    flat = torch.stack([torch.full((3, 8, 8), level, dtype=torch.uint8) for level in (0, 255, 120, 255)])
    assert find_copies(Signatures.of(flat)) == [Copy(1, 3, 1.0, exact=True)]


def test_in_a_crowd_only_what_is_sure_counts(pictures, monkeypatch):
    monkeypatch.setattr(find, "SURE", 0.995)
    alike = (0.86 * pictures[:1].float() + 0.14 * pictures[1:9].float()).to(torch.uint8)  # each like the first
    two = find_copies(Signatures.of(torch.cat([pictures[20:], alike[:2]])))
    assert [(copy.first, copy.second) for copy in two] == [(COUNT - 20, COUNT - 19)]
    assert find_copies(Signatures.of(torch.cat([pictures[20:], alike]))) == []


def test_a_view_shows_what_a_crop_shows():
    picture = torch.arange(16.0).expand(1, 16, 16)
    assert torch.allclose(view(picture, 0), picture)
    mirrored = view(picture, len(VIEWS) - 1)
    assert torch.allclose(mirrored, picture.flip(2))
    first, last = view(picture, 1), view(picture, 9)
    assert first[0, 0, 0] < 0.1
    assert last[0, 0, -1] > 14.9
    assert last[0, 0, 0] == pytest.approx(float(first[0, 0, 0]) + 1.6, abs=0.1)  # a tenth of 16 further right


def brute_force(hashes: np.ndarray, others: np.ndarray) -> set[tuple[int, int]]:
    bands = [(np.uint64(0xFFFF) << np.uint64(16 * band)) for band in range(4)]
    return {
        (one, other)
        for one in range(len(hashes))
        for other in range(len(others))
        if any((hashes[one] ^ others[other]) & band == 0 for band in bands)
    }


def test_pairs_that_share_a_band_are_those_of_a_loop_over_all(monkeypatch):
    rng = np.random.default_rng(0)
    hashes, others = (rng.integers(0, 2**64, 80, dtype=np.uint64) & np.uint64(0xF0030003F003C003) for _ in range(2))
    monkeypatch.setattr(candidates, "AT_ONCE", 7)
    monkeypatch.setattr(candidates, "WINDOW", 1000)
    found = {
        pair for one, other in sharing_a_band(hashes, others) for pair in zip(one.tolist(), other.tolist(), strict=True)
    }
    assert found == brute_force(hashes, others)
    assert len(found) > 80


def test_a_crowded_band_costs_a_window_for_each():
    hashes = np.arange(5000, dtype=np.uint64)  # three bands in common
    assert sum(len(one) for one, _ in sharing_a_band(hashes, hashes)) <= 4 * 2 * candidates.WINDOW * 5000


def test_pictures_are_remembered_while_they_are_read(scenes):
    repeated = subset(scenes, [*range(12), 4, 9])
    watched = WatchedSource(repeated)
    part = subset(watched, [*range(5, 14)])
    part.images(range(9), 32)
    watched.images([4, 3, 2, 1, 0, 13], 32)
    exact = [(copy.first, copy.second) for copy in watched.copies() if copy.exact]
    assert exact == [(4, 12), (9, 13)]
    assert (len(watched), watched.pair(3)) == (14, scenes.pair(3))
    assert (can_crop(watched), is_judged(watched), has_features(watched)) == (False, True, False)


def test_nothing_read_has_no_copies(scenes):
    assert WatchedSource(scenes).copies() == []


def test_near_duplicates_of_scenes_come_first():
    noise = Noise(near_duplicates=0.05)
    source = WatchedSource(Scenes.Config(train_size=300, noise=noise).build("train"))
    source.images(range(300), 64)
    keys = {source.pair(index).key: index for index in range(300)}
    real = {
        frozenset((index, keys[truth["other"]]))
        for index in range(300)
        if (truth := source.pair(index).truth).get("noise") == "near_duplicates"
    }
    named = [frozenset((copy.first, copy.second)) for copy in source.copies()][: len(real) // 2]
    assert np.mean([two in real for two in named]) >= 0.8


def test_bits_are_counted_alike_with_and_without_numpy_2():
    words = np.random.default_rng(0).integers(0, 2**64, 100, dtype=np.uint64)
    words[:2] = 0, 2**64 - 1
    assert find._count_bits(words).tolist() == [int(word).bit_count() for word in words]
    assert np.array_equal(find.count_bits(words), find._count_bits(words))


def test_a_look_that_is_spared_changes_no_copy(pictures):
    planted = torch.stack([changed(picture, "brighter") for picture in pictures[:10]])
    thumbnails = Signatures.of(torch.cat([pictures, planted])).thumbnails
    every = np.array([(one, other) for one in range(len(thumbnails)) for other in range(one)])
    one, other = (thumbnails[torch.from_numpy(every[:, side])].float() for side in (0, 1))
    looks = torch.stack([look(one, other) for look in (find._correlation, find._same_colours, find._same_details)])
    lowest, found = looks.amin(0).double().numpy(), find._similarities(thumbnails, every, 0)
    similar = lowest >= find.SIMILAR
    assert 10 <= similar.sum() < len(every)
    assert ((found >= find.SIMILAR) == similar).all()
    np.testing.assert_allclose(found[similar], lowest[similar], rtol=0, atol=1e-6)
