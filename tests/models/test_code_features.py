"""Code weights as features, against loops over samples."""

from __future__ import annotations

import pytest
import torch

from equipoise.cli import main
from equipoise.data.remap import subset
from equipoise.evaluation.encoding import labels
from equipoise.evaluation.evaluate import evaluate
from equipoise.evaluation.settings import Evaluation
from equipoise.models.code_features import with_code_features
from equipoise.types import UserError


@torch.no_grad()
def weights_of(model, source, texts):
    """The shares of every image and text, one sample at a time."""
    images = []
    for index in range(len(source)):
        pixels = model.image_encoder.prepare(source.images([index], model.preprocess.size), model.preprocess)
        images.append(model.image_readout.weights(model.image_encoder(pixels), model.shared)[0].double())
    said = [
        model.text_readout.weights(model.text_encoder(*model.tokenizer([text])), model.shared)[0].double()
        for text in texts
    ]
    return images, said


def cosine(u, v):
    return sum(float(a * b) for a, b in zip(u, v, strict=True)) / float(u.norm() * v.norm())


def test_retrieval_and_zero_shot_equal_loops(coded, scenes):
    source = subset(scenes, range(24))
    found = evaluate(coded, source, Evaluation(features="weights"))
    first = [source.pair(index).captions[0] for index in range(24)]
    images, texts = weights_of(coded, source, first)
    places = []
    for number, text in enumerate(texts):
        scores = [cosine(image, text) for image in images]
        places.append(1 + sum(score >= scores[number] for other, score in enumerate(scores) if other != number))
    for k in (1, 5, 10):
        expected = sum(place <= k for place in places) / 24
        assert found["retrieval"].metrics[f"text_to_image_R@{k}"] == pytest.approx(expected)
    labelled, truth = labels(source)
    prompts = [[template.replace("{}", name) for template in source.templates] for name in source.class_names]
    flat = weights_of(coded, subset(scenes, []), [text for some in prompts for text in some])[1]
    each = len(source.templates)
    hits = 0
    for index, label in zip(labelled, truth.tolist(), strict=True):
        scores = [
            sum(cosine(images[index], prompt) for prompt in flat[c * each : (c + 1) * each])
            for c in range(len(prompts))
        ]
        hits += max(range(len(scores)), key=scores.__getitem__) == label
    assert found["zero_shot"].metrics["acc1"] == pytest.approx(hits / len(labelled))
    assert coded.space.dim == 16  # the model itself is as it was
    assert found["retrieval"].metrics != evaluate(coded, source, Evaluation())["retrieval"].metrics


def test_they_are_shares_of_the_same_weights(coded, scenes):
    seen = with_code_features(coded)
    points = seen.encode_image(scenes.images([0, 1], coded.preprocess.size))
    assert points.shape == (2, 24)
    assert (points >= 0).all()
    assert seen.shared is coded.shared
    assert coded.encode_image(scenes.images([0, 1], coded.preprocess.size)).shape == (2, 16)


@pytest.mark.slow
def test_a_model_without_codes_and_an_unknown_word_are_refused(model, scenes, fdt_run, capsys):
    with pytest.raises(UserError, match="has no code weights"):
        evaluate(model, scenes, Evaluation(features="weights"))
    with pytest.raises(UserError, match="features must be one of points, weights"):
        Evaluation(features="codes")
    assert main(["eval", str(fdt_run), "--set", "evaluation.features=weights"]) == 0
    assert "R@1" in capsys.readouterr().out
