from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from plain_sources import Labelled, Plain

from equipoise.config import Loaded
from equipoise.data.remap import subset
from equipoise.data.scenes import Scenes
from equipoise.evaluation.encoding import Captions, captions, encode_images, fill
from equipoise.evaluation.evaluate import evaluate, validate, validation_metrics
from equipoise.evaluation.geometry import geometry
from equipoise.evaluation.ranking import retrieval
from equipoise.evaluation.settings import Evaluation
from equipoise.evaluation.zeroshot import zero_shot
from equipoise.models.model import Model
from equipoise.types import UserError


@pytest.fixture(scope="module")
def test_split(tiny: Loaded) -> Scenes:
    return tiny.run.data.build("test")


def by_hand(model: Model, source: Scenes, count: int) -> dict[str, float]:
    """Retrieval from its definition: every caption written down, every pair judged by `relevance`."""
    texts = [text for index in range(len(source)) for text in source.pair(index).captions[:count]]
    owners = [index for index in range(len(source)) for _ in source.pair(index).captions[:count]]
    images = model.encode_image(source.images(range(len(source)), 32))
    truth = source.relevance(range(len(source)), texts)
    return retrieval(images, model.encode_text(texts), model.similarity, torch.tensor(owners), truth)


def test_the_numbers_are_those_of_the_protocols_by_hand(model: Model, test_split: Scenes) -> None:
    findings = evaluate(model, test_split, Evaluation())
    assert findings["retrieval"].metrics == pytest.approx(by_hand(model, test_split, 1))
    assert findings["matching"].metrics == pytest.approx(by_hand(model, test_split, 99))

    labels = [test_split.pair(index).label for index in range(len(test_split))]
    kept = [index for index, label in enumerate(labels) if label is not None]
    prompts = torch.stack([model.encode_text(texts) for texts in fill(test_split.templates, test_split.class_names)])
    truth = torch.tensor([test_split.class_names.index(str(labels[index])) for index in kept])
    images = model.encode_image(test_split.images(kept, 32))
    assert findings["zero_shot"].metrics == pytest.approx(zero_shot(images, truth, prompts, model.space))
    counts = findings["zero_shot"].confusion
    assert counts is not None
    np.testing.assert_array_equal(counts.sum(axis=1), np.bincount(truth, minlength=len(test_split.class_names)))
    assert findings["zero_shot"].classes == test_split.class_names


def test_matching_is_left_out_where_it_would_repeat_retrieval(model: Model, test_split: Scenes) -> None:
    single = replace(test_split.config, captions=1).build("test")
    findings = evaluate(model, single, Evaluation())
    assert findings["retrieval"].metrics == pytest.approx(by_hand(model, single, 99))
    assert "matching" not in findings


def test_a_caption_that_occurs_twice_is_encoded_once_and_stands_in_both_places(model: Model) -> None:
    texts = ["a red star", "a blue fish", "a red star", "a tree"]
    seen: list[str] = []
    real = model.text_encoder.prepare

    def counted(strings, *rest):
        seen.extend(strings)
        return real(strings, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.text_encoder, "prepare", counted)
        points = Captions(texts, torch.arange(4)).points(model)
    assert sorted(seen) == sorted(set(texts))
    assert torch.equal(points[0], points[2])
    torch.testing.assert_close(points, torch.cat([model.encode_text(text) for text in texts]))


def test_only_what_the_source_has_the_truth_for_is_measured(model: Model, test_split: Scenes) -> None:
    plain = evaluate(model, Plain(test_split), Evaluation())
    assert {"matching", "zero_shot", "shifts"}.isdisjoint(plain)
    assert not any("mAP" in name or "true" in name for name in plain["retrieval"].metrics)
    assert "zero_shot" in evaluate(model, Labelled(test_split), Evaluation())
    assert "zero_shot" not in evaluate(model, Labelled(test_split, label=False), Evaluation())


def test_one_pair_has_no_geometry(model: Model, test_split: Scenes) -> None:
    assert "geometry" not in evaluate(model, subset(test_split, [3]), Evaluation())


def test_validation_is_retrieval_and_geometry_and_the_names_of_the_first_are_known_before(
    model: Model, test_split: Scenes
) -> None:
    for source in (test_split, Plain(test_split)):
        validated = validate(model, source, Evaluation())
        findings = evaluate(model, source, Evaluation())
        ranked = findings["retrieval"].metrics
        assert validated == {**ranked, **findings["geometry"].metrics}
        counts = {name for name in ranked if name.endswith("queries")}
        assert set(validation_metrics(source)) == ranked.keys() - counts


def test_geometry_is_that_of_images_and_their_first_captions(model: Model, test_split: Scenes) -> None:
    texts = model.encode_text([test_split.pair(index).captions[0] for index in range(len(test_split))])
    images = model.encode_image(test_split.images(range(len(test_split)), 32))
    for count in (1, 2, 0):
        found = evaluate(model, test_split, Evaluation(captions=count))["geometry"].metrics
        assert found == pytest.approx(geometry(images, texts, model.space), abs=1e-5)


def test_batches_and_chunks_change_nothing(model: Model, test_split: Scenes) -> None:
    whole = evaluate(model, test_split, Evaluation())
    parts = evaluate(model, test_split, Evaluation(batch_size=5, chunk=3))
    for name, finding in whole.items():
        assert parts[name].metrics == pytest.approx(finding.metrics)
    some = encode_images(model, test_split, batch_size=4, limit=6)
    torch.testing.assert_close(some, encode_images(model, test_split, batch_size=16)[:6])


def test_captions_are_counted_by_image(test_split: Scenes) -> None:
    for per_image, expected in ((1, 1), (3, 3), (0, 5)):
        said = captions(test_split, per_image)
        assert len(said.texts) == len(said.image_of_text) == expected * len(test_split)
        assert said.texts[expected] == test_split.pair(1).captions[0]
        assert torch.bincount(said.image_of_text).tolist() == [expected] * len(test_split)


def test_more_captions_an_image_are_more_queries(model: Model, test_split: Scenes) -> None:
    metrics = evaluate(model, test_split, Evaluation(captions=2))["retrieval"].metrics
    assert metrics["text_to_image_queries"] == 2 * metrics["image_to_text_queries"] == 2 * len(test_split)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"average": "median"}, "average must be one of similarity, embedding, not 'median'"),
        ({"captions": -2}, "captions must be at least -1, not -2"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"chunk": 0}, "chunk must be at least 1, not 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Evaluation(**change)


def test_five_captions_are_ranked_and_said_and_one_of_scenes(model: Model, test_split: Scenes) -> None:
    plain = Plain(test_split)
    found = evaluate(model, plain, Evaluation())["retrieval"]
    most = max(len(plain.pair(index).captions) for index in range(len(plain)))
    assert found.metrics["text_to_image_queries"] == len(plain) * min(most, 5)
    assert found.notes["captions_per_image"] == f"{min(most, 5)}"
    assert evaluate(model, test_split, Evaluation())["retrieval"].notes["captions_per_image"] == "1"


def test_relevance_of_a_file_gives_the_precisions(model: Model, test_split: Scenes, tmp_path: Path) -> None:
    """Pairs that name each caption's own image: mAP@R of one relevant image is whether it comes first."""
    plain, file = Plain(test_split), tmp_path / "own.csv"
    keys = [plain.pair(index).key for index in range(len(plain))]
    lines = [f"{key},{key}#{number}" for key in keys for number in range(2)]
    file.write_text("image_id,caption_id\n" + "\n".join(lines) + "\n")
    settings = Evaluation(captions=2, copies="misses", relevance=str(file))
    found = evaluate(model, plain, settings)["retrieval"].metrics
    assert found["text_to_image_mAP@R"] == found["text_to_image_R@1"] == found["text_to_image_true_R@1"]
    folds = evaluate(model, plain, Evaluation(captions=2, folds=2))["retrieval"]
    assert folds.notes["folds"] == 2
    assert folds.metrics["image_to_text_queries"] == len(plain)
    with pytest.raises(UserError, match="folds are ranked by labelled pairs alone"):
        Evaluation(folds=2, relevance=str(file))
