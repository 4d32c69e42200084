from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from equipoise.config import Loaded
from equipoise.data.batches import Batches
from equipoise.data.scenes import Scenes
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.models.model import Model, count_parameters
from equipoise.types import Embeddings, UserError
from equipoise.workflows import build_model

TEXTS = ["a red fish", "a small blue star left of a large green heart", "two things, one of them round"]


def pictures(scenes: Scenes, count: int) -> list[Image.Image]:
    return [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in scenes.images(range(count), 32)]


def test_points_are_flat_on_the_sphere_and_without_gradient(model: Model, scenes: Scenes) -> None:
    for points in (model.encode_image(scenes.images(range(5), 32)), model.encode_text(TEXTS)):
        assert points.shape[1] == model.space.dim == 16
        torch.testing.assert_close(points.norm(dim=1), torch.ones(len(points)))
        assert not points.requires_grad


def test_pictures_paths_and_pixels_give_the_same_points(model: Model, scenes: Scenes, tmp_path: Path) -> None:
    images = pictures(scenes, 3)
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for image, path in zip(images, paths, strict=True):
        image.save(path)
    expected = model.encode_image(scenes.images(range(3), 32))
    for given in (images, paths, [str(path) for path in paths], tuple(paths)):
        torch.testing.assert_close(model.encode_image(given), expected)
    for single in (images[0], paths[0], str(paths[0])):
        torch.testing.assert_close(model.encode_image(single), expected[:1])
    torch.testing.assert_close(model.encode_text(TEXTS[0]), model.encode_text(TEXTS)[:1])


def test_encoding_in_batches_changes_nothing(model: Model, scenes: Scenes) -> None:
    images = scenes.images(range(7), 32)
    torch.testing.assert_close(model.encode_image(images, batch_size=3), model.encode_image(images))
    one_by_one = torch.cat([model.encode_text(text) for text in TEXTS])
    torch.testing.assert_close(model.encode_text(TEXTS, batch_size=2), model.encode_text(TEXTS))
    torch.testing.assert_close(one_by_one, model.encode_text(TEXTS))


def test_nothing_to_encode_is_no_mistake(model: Model) -> None:
    assert model.encode_text([]).shape == model.encode_image([]).shape == (0, 16)


def test_encoding_switches_dropout_off_and_the_training_mode_back_on(tiny: Loaded, tokens: CaptionTokenizer) -> None:
    dropping = replace(tiny.run, image=replace(tiny.run.image, patch_dropout=0.5))
    model = build_model(dropping, tokens).train()
    image = torch.randint(256, (1, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.encode_image(image), model.encode_image(image))
    assert model.training
    assert model.image_encoder.training
    pixels = model.preprocess.for_evaluation(image)
    assert not torch.equal(model.image_points(pixels), model.image_points(pixels))
    assert not model.eval().encode_image(image).requires_grad
    assert not model.training


def test_forward_fills_the_roles_asked_for(model: Model, batches: Batches) -> None:
    batch = batches.batch(0)
    embeddings = model(batch)
    assert isinstance(embeddings, Embeddings)
    assert set(embeddings.roles()) == {"image", "text"}
    assert embeddings.image.requires_grad
    with pytest.raises(UserError, match="this model cannot produce regions"):
        model(batch, ("image", "text", "tags", "regions"))


def test_similarity_is_larger_for_closer_and_knows_no_temperature(model: Model) -> None:
    points = model.encode_text(TEXTS)
    similarity = model.similarity(points, points)
    torch.testing.assert_close(similarity, points @ points.T)
    torch.testing.assert_close(similarity.diagonal(), torch.ones(3))
    with torch.no_grad():
        model.logit_scale.fill_(9.0)
    assert model.log_scale.item() == pytest.approx(model.temperature.max_log_scale)
    torch.testing.assert_close(model.similarity(points, points), similarity)


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (torch.rand(2, 3, 32, 32), "must be uint8 of shape"),
        (torch.zeros(3, 32, 32, dtype=torch.uint8), "must be uint8 of shape"),
        ("nowhere.jpg", r"nowhere.jpg: there is no such image file"),
    ],
)
def test_images_that_are_none_are_one_sentence(model: Model, images: torch.Tensor | str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        model.encode_image(images)


def test_a_text_without_words_is_one_sentence(model: Model) -> None:
    with pytest.raises(UserError, match="Caption 1 is empty"):
        model.encode_text(["a fish", ""])


def test_parameters_are_counted_by_hand(model: Model, tokens: CaptionTokenizer) -> None:
    width, hidden = 16, 64
    block = 4 * width + (3 * width * width + 3 * width) + (width * width + width)
    block += (width * hidden + hidden) + (hidden * width + width)
    image = 3 * 8 * 8 * width + width + (1 + 16) * width + 4 * width + block
    text = tokens.size * width + tokens.context * width + block + 2 * width
    assert count_parameters(model) == image + text + 2 * width * 16 + 1
