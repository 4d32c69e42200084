"""What codes stand for, against loops; finer patches; the page and the words of the command."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from small_model import small_model
from torch.nn import functional as F

from equipoise.analysis.codebook.heatmap import Heat, coloured, spread_out
from equipoise.analysis.codebook.purity import VALUES, chance, image_labels, purity, text_labels
from equipoise.analysis.codebook.topk import Best
from equipoise.analysis.codebook.usage import towers, use_of_images, use_of_texts, used
from equipoise.cli import main
from equipoise.encoders import ViT
from equipoise.encoders.dense_vit import FinerViT
from equipoise.types import UserError


@pytest.mark.parametrize("k", [1, 4, 50])
def test_best_of_a_stream_equals_the_best_of_all(k):
    rng = random.Random(k)
    best, known = Best(3, k), [dict[int, float]() for _ in range(3)]
    for _ in range(12):
        items = torch.tensor([rng.randrange(30) for _ in range(rng.randrange(0, 9))], dtype=torch.long)
        scores = torch.randn(len(items), 3, generator=torch.Generator().manual_seed(rng.randrange(99)))
        best.add(items, scores)
        for item, row in zip(items.tolist(), scores.double().tolist(), strict=True):
            for code, score in enumerate(row):
                known[code][item] = max(known[code].get(item, -9.0), score)
    for code in range(3):
        assert best.of(code) == sorted(known[code].items(), key=lambda one: -one[1])[:k]


@torch.no_grad()
def test_images_and_words_equal_loops(coded, scenes):
    image, text = towers(coded)
    labels = image_labels([scenes.pair(i) for i in range(len(scenes))])
    usage = use_of_images(coded, scenes, 3, labels)
    relevance, shares = [], []
    for index in range(len(scenes)):
        pixels = coded.image_encoder.prepare(scenes.images([index], coded.preprocess.size), coded.preprocess)
        features = coded.image_encoder(pixels)
        patches = image.queries(features)[0][0]
        relevance.append([max(float(q @ c) for q in patches) for c in image.book.codes])
        shares.append(image.readout.weights(features, image.book)[0].double())
    for code in range(24):
        by_image = {index: row[code] for index, row in enumerate(relevance)}
        _assert_best(usage.best.of(code), by_image, 3)
    torch.testing.assert_close(usage.shares, torch.stack(shares).sum(0), rtol=0, atol=1e-4)
    captions = [caption for i in range(8) for caption in scenes.pair(i).captions]
    found = use_of_texts(coded, captions, 2, 3)
    known: list[dict[str, float]] = [{} for _ in range(24)]
    for caption in captions:
        ids, mask = coded.tokens([caption])
        queries = text.queries(coded.text_encoder(ids, mask))[0][0]
        for q, word in zip(queries, coded.tokens.words([caption])[0], strict=False):
            for code, vector in enumerate(text.book.codes):
                if word is not None:
                    known[code][word] = max(known[code].get(word, -9.0), float(q @ vector))
    for code in range(24):
        _assert_best([(found.words[item], value) for item, value in found.best.of(code)], known[code], 3)
    order = used(usage, found.usage)
    both = usage.shares / usage.samples + found.usage.shares / found.usage.samples
    assert order == sorted(order, key=lambda code: -float(both[code]))
    assert set(range(24)) - set(order) == {c for c in range(24) if both[c] < 1e-3 * both.sum() / 24}
    for code in (order[0], order[-1]):
        top = purity(usage, code)["top"]
        has = [(top.attribute, top.value) in _values(scenes.pair(i)) for i in range(len(scenes))]
        best = [item for item, _ in usage.best.of(code)]
        assert top.base == pytest.approx(sum(has) / len(has))
        assert top.share == pytest.approx(sum(has[item] for item in best) / 3)
        weighted = purity(usage, code)["weighted"]
        has = [(weighted.attribute, weighted.value) in _values(scenes.pair(i)) for i in range(len(scenes))]
        total = sum(float(row[code]) for row in shares)
        share = sum(float(row[code]) for row, one in zip(shares, has, strict=True) if one) / total
        assert weighted.share == pytest.approx(share, abs=1e-4)


def _assert_best(found, scores, k):
    """The k largest, in falling order; which of two that differ by rounding alone is left open."""
    assert len({item for item, _ in found}) == k
    assert [value for _, value in found] == pytest.approx(sorted(scores.values(), reverse=True)[:k], abs=1e-6)
    assert [scores[item] for item, _ in found] == pytest.approx([value for _, value in found], abs=1e-6)


def _values(pair):
    return {(name, thing[name]) for thing in pair.truth["scene"]["things"] for name in ("shape", "colour", "texture")}


def test_what_captions_state_and_what_chance_gives():
    stated = text_labels(["a striped red fish", "something round", "two stars"])
    assert [{VALUES[v][1] for v in row.nonzero()[:, 0]} for row in stated] == [
        {"striped", "red", "fish"},
        set(),
        {"star"},
    ]
    labels = torch.zeros(40, len(VALUES), dtype=torch.bool)
    labels[:20, 0] = True
    assert chance(labels, 40) == 0  # all of them
    assert 0 < chance(labels, 4) < 0.5


class Twice:
    """Every picture of a source two times."""

    def __init__(self, source):
        self.source = source

    def __len__(self):
        return 2 * len(self.source)

    def pair(self, index):
        return self.source.pair(index // 2)

    def images(self, indices, size, device="cpu"):
        return self.source.images([index // 2 for index in indices], size, device)


def test_a_picture_that_comes_twice_is_shown_once(coded, scenes):
    once, twice = use_of_images(coded, scenes, 3), use_of_images(coded, Twice(scenes), 3)
    torch.testing.assert_close(twice.best.items, 2 * once.best.items)


def test_words_of_tokens(tokens):
    captions = ["A rose-coloured STRIPED rhombus, left of a fish", "star"]
    mask = tokens(captions)[1]
    words = tokens.words(captions)
    assert [len(one) for one in words] == mask.sum(1).tolist()
    assert words[0][0] is words[0][-1] is None
    assert list(dict.fromkeys(word for word in words[0] if word)) == [
        "a", "rose", "coloured", "striped", "rhombus", "left", "of", "fish",
    ]  # fmt: skip
    assert None in words[0][1:-1]  # the comma
    tokens.context, before = 5, tokens.context
    assert len(tokens.words(captions)[0]) == 5
    tokens.context = before


@torch.no_grad()
def test_finer_patches_are_those_of_the_vit_where_both_have_one():
    vit = small_model(readout="code_book").image_encoder.eval()
    assert isinstance(vit, ViT)
    images = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    same, plain = FinerViT(vit, 8)(images), vit(images)
    torch.testing.assert_close(same.tokens, plain.tokens, rtol=0, atol=1e-12)
    finer = FinerViT(vit, 2)
    assert finer(images).tokens.shape == (2, 25, 16)
    grid = finer.positions().unflatten(0, (5, 5))
    torch.testing.assert_close(grid[::4, ::4].flatten(0, 1), vit.positions[1:], rtol=0, atol=1e-12)
    patch = F.conv2d(images[:, :, 2:10, 4:12], vit.patches.weight)[..., 0, 0]  # row 1, column 2
    moved = F.conv2d(images, vit.patches.weight, stride=2).flatten(2).mT[:, 5 + 2]
    torch.testing.assert_close(moved, patch, rtol=0, atol=1e-12)
    with pytest.raises(UserError, match=r"a stride of 3 .* 8 px.* 1, 2, 4, 8"):
        FinerViT(vit, 3)


def test_heat_is_linear_between_places_and_flat_outside():
    maps = np.array([[[0.0, 1.0], [2.0, 3.0]]])
    wide = spread_out(maps, 8, margin=0.25)
    for y in range(8):
        for x in range(8):
            down, right = (min(max(((at + 0.5) / 8 - 0.25) / 0.5, 0), 1) for at in (y, x))
            assert wide[0, y, x] == pytest.approx(2 * down + right)
    assert (spread_out(np.full((1, 1, 1), 7.0), 4, margin=0.5) == 7).all()
    picture = np.full((1, 8, 8, 3), 100, dtype=np.uint8)
    heat = coloured(picture, wide)
    assert heat[0, 0, 0].argmax() == 2  # blue
    assert heat[0, -1, -1].argmax() == 0  # red
    assert coloured(picture, np.zeros((1, 8, 8))).shape == picture.shape


@torch.no_grad()
def test_heat_of_a_code_is_the_relevance_of_patches(coded, scenes):
    heat = Heat(coded)
    queries = heat.queries(scenes, [3, 5])
    patches = coded.image_encoder(
        coded.image_encoder.prepare(scenes.images([3, 5], coded.preprocess.size), coded.preprocess)
    )
    expected = towers(coded)[0].queries(patches)[0] @ coded.shared.codes[7]
    maps = heat.maps(queries, 7, 4)  # as many pixels as patches
    np.testing.assert_allclose(maps.reshape(2, 16), expected.numpy(), atol=1e-6)
    assert Heat(coded, 4).queries(scenes, [3]).shape[:3] == (1, 7, 7)


@pytest.mark.slow
def test_the_command_writes_a_page_and_finds_words(fdt_run, tmp_path, capsys):
    assert main(["codes", str(fdt_run), "--stride", "4", "--images", "2", "--out", str(tmp_path / "seen")]) == 0
    record = json.loads((tmp_path / "seen" / "codes.json").read_text())
    assert capsys.readouterr().out.startswith(record["finding"])
    page = (tmp_path / "seen" / "index.html").read_text()
    for code in record["codes"]:
        assert len(code["images"]) == 2
        assert 1 <= len(code["words"]) <= 8
        assert set(code["purity"]) == {"image", "text"}
        assert (tmp_path / "seen" / "pictures" / f"{code['code']:05d}.jpg").stat().st_size > 500
        assert f'src="pictures/{code["code"]:05d}.jpg"' in page
    assert page.count("<script>") == 1
    agreements = [one["agreement"] for one in record["codes"]]
    places = [page.index(f"{one['code']:05d}.jpg") for one in record["codes"]]
    assert agreements == sorted(agreements, reverse=True)
    assert places == sorted(places), "the page has the order of the numbers"
    assert record["images_seen"] == 16
    assert main(["codes", str(fdt_run), "--word", "striped", "--out", str(tmp_path / "seen")]) == 0
    assert "codes fire for “striped”" in capsys.readouterr().out
    codes = json.loads((tmp_path / "seen" / "words.json").read_text())["words"]["striped"]
    assert sum(code["share"] for code in codes) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_mistakes_are_one_sentence(fdt_run, finished_run, tmp_path, capsys):
    for words, sentence in (
        ([finished_run], "this model has no codes to look at"),
        ([finished_run, "--word", "red"], "this model has no codes to look at"),
        ([fdt_run, "--stride", "5"], "a stride of 5 does not divide patches of 8 px"),
        ([fdt_run, "--images", "0"], "--images must be at least 1, not 0"),
    ):
        assert main(["codes", *map(str, words), "--out", str(tmp_path)]) == 2
        told = capsys.readouterr().err
        assert sentence in told
        assert told.count("\n") == 1
