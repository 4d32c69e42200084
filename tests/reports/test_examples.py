from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from equipoise.config import load_run
from equipoise.data.scenes import Scenes
from equipoise.data.source import Pair, Source
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.settings import Evaluation
from equipoise.models.model import Model
from equipoise.reports.examples import PICTURE_SIZE, gather_examples
from equipoise.reports.held_out import HeldOut
from equipoise.reports.report import ExampleSets, ImageQuery, TextQuery


class Knowing(Model):
    """A model that knows some pairs by heart: pair k lies on axis k, but the pairs in `mistaken` are exchanged."""

    def __init__(self, source: Scenes, mistaken: tuple[int, int]):
        torch.nn.Module.__init__(self)
        self.logit_scale = torch.nn.Parameter(torch.zeros(()))
        run = load_run("demo").run
        self.preprocess, self.space = run.preprocess, run.space
        self.image_encoder, self.text_encoder = run.image.build(run.preprocess.size), run.text.build(600, 64)
        self.texts = {source.pair(index).captions[0]: index for index in range(len(source))}
        assert len(self.texts) == len(source), "the test needs captions that differ"
        self.axes = torch.eye(len(source)) + 0.1 * torch.rand(len(source), 1)  # no two pairs equally sure
        self.order = list(range(len(source)))
        one, other = mistaken
        self.order[one], self.order[other] = other, one

    def encode_image(self, images, batch_size=256):  # type: ignore[no-untyped-def]
        return self.axes[: len(images)]

    def encode_text(self, texts, batch_size=256):  # type: ignore[no-untyped-def]
        return self.axes[[self.order[self.texts[text]] for text in texts]]


def source(size: int, *settings: str) -> Scenes:
    return load_run("demo", [f"data.test_size={size}", *settings]).run.data.build("test")


def examples_of(model: Model, data: Source, count: int = 4, **settings: Any) -> ExampleSets:
    return gather_examples(HeldOut(Encoded(model, data, Evaluation(captions=1, **settings))), count)


def test_the_best_are_successes_and_the_worst_are_failures() -> None:
    data = source(12)
    examples = examples_of(Knowing(data, mistaken=(3, 8)), data, count=2)
    assert len(examples.best_texts) == len(examples.best_images) == 2
    best: list[TextQuery | ImageQuery] = [*examples.best_texts, *examples.best_images]
    worst: list[TextQuery | ImageQuery] = [*examples.worst_texts, *examples.worst_images]
    assert all(query.labelled[0] and query.correct[0] for query in best)
    assert not any(query.labelled[0] for query in worst)
    said = [data.pair(index).captions[0] for index in (3, 8)]
    assert sorted(query.text for query in examples.worst_texts) == sorted(said)
    pictures = data.images([3, 8], PICTURE_SIZE).permute(0, 2, 3, 1).numpy()
    for query in examples.worst_images:
        assert any(np.array_equal(query.image, picture) for picture in pictures)


def test_what_is_shown_is_what_was_found(model: Model) -> None:
    few = ('data.shapes=["circle","square"]', 'data.colours=["red","blue"]', 'data.textures=["solid"]')
    data = source(12, *few)  # so few that many captions are true of other scenes too
    points = model.encode_image(data.images(range(12), 32))
    texts = [data.pair(index).captions[0] for index in range(12)]
    similarity = model.similarity(points, model.encode_text(texts))
    truth = data.relevance(range(12), texts)
    examples = examples_of(model, data, count=12)
    for query in examples.worst_texts:
        column = texts.index(query.text)
        found = similarity[:, column].argsort(descending=True)[:5].tolist()
        assert query.correct == truth[found, column].tolist()
        torch.testing.assert_close(torch.tensor(query.similarity), similarity[found, column])
        assert query.labelled == [index == column for index in found]
        np.testing.assert_array_equal(query.images[0], data.images(found[:1], PICTURE_SIZE)[0].permute(1, 2, 0).numpy())
    pictures = data.images(range(12), PICTURE_SIZE).permute(0, 2, 3, 1).numpy()
    assert len(examples.best_images) == 12
    for shown in examples.best_images:
        row = next(number for number, picture in enumerate(pictures) if np.array_equal(picture, shown.image))
        found = similarity[row].argsort(descending=True)[:3].tolist()
        assert shown.texts == [texts[index] for index in found]
        assert shown.correct == truth[row, found].tolist()
        assert shown.labelled == [index == row for index in found]


class Coarse(Knowing):
    """Points of small whole numbers: many similarities are equal."""

    def __init__(self, source: Scenes, seed: int):
        super().__init__(source, mistaken=(0, 1))
        draw = torch.Generator().manual_seed(seed)
        self.axes = torch.randint(-1, 2, (len(source), 3), generator=draw).float()
        self.others = torch.randint(-1, 2, (len(source), 3), generator=draw).float()

    def similarity(self, images, texts):  # type: ignore[no-untyped-def]
        return images @ texts.T

    def encode_text(self, texts, batch_size=256):  # type: ignore[no-untyped-def]
        return self.others[[self.texts[text] for text in texts]]


class Unjudged:
    """Pairs that know nothing of truth but which caption came with which image."""

    def __init__(self, source: Scenes):
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def pair(self, index: int) -> Pair:
        return self.source.pair(index)

    def images(self, indices, size, device="cpu"):  # type: ignore[no-untyped-def]
        return self.source.images(indices, size)


def ranked(scores: list[list[float]], matching: list[list[bool]]) -> list[tuple[int, float, int]]:
    """Place of the first match of each query, its margin and the query, one by one; ties against the model."""
    found = []
    for number, (row, right) in enumerate(zip(scores, matching, strict=True)):
        own = max((s for s, yes in zip(row, right, strict=True) if yes), default=None)
        if own is None:
            continue
        rivals = [s for s, yes in zip(row, right, strict=True) if not yes]
        found.append((1 + sum(s >= own for s in rivals), own - max(rivals, default=-np.inf), number))
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize("chunk", [5, 1024])
def test_the_worst_of_the_whole_test_set_are_shown(seed: int, judged: bool, chunk: int) -> None:
    scenes = source(40)
    data: Any = scenes if judged else Unjudged(scenes)
    model = Coarse(scenes, seed)
    texts = [scenes.pair(index).captions[0] for index in range(40)]
    scores = (model.axes @ model.others.T).double()
    matching = torch.from_numpy(scenes.relevance(range(40), texts)) if judged else torch.eye(40, dtype=torch.bool)
    examples = examples_of(model, data, count=6, chunk=chunk)
    ways = ((scores.T, matching.T, examples.worst_texts, examples.best_texts),
            (scores, matching, examples.worst_images, examples.best_images))  # fmt: skip
    for similarity, right, worst, best in ways:
        queries = ranked(similarity.tolist(), right.tolist())
        assert len({place for place, _, _ in queries}) > 3
        lowest = sorted(queries, key=lambda one: (-one[0], one[1], one[2]))[:6]
        highest = sorted(queries, key=lambda one: (one[0], -one[1], one[2]))[:6]
        for shown, expected in ((worst, lowest), (best, highest)):
            assert [query.place for query in shown] == [place for place, _, _ in expected]
            assert {query.among for query in shown} == {40}
            for query, (place, _, number) in zip(shown, expected, strict=True):
                if isinstance(query, TextQuery):
                    assert query.text == texts[number]
                else:
                    picture = scenes.images([number], PICTURE_SIZE)[0].permute(1, 2, 0).numpy()
                    np.testing.assert_array_equal(query.image, picture)
                assert [bool(one) for one in query.correct[: place - 1]] == [False] * len(query.correct[: place - 1])
                assert place > len(query.correct) or query.correct[place - 1]


def test_a_caption_that_comes_again_is_shown_once(model: Model) -> None:
    few = ('data.shapes=["circle"]', 'data.colours=["red","blue"]', 'data.textures=["solid"]')
    examples = examples_of(model, source(30, *few), count=30)
    asked = [query.text for query in examples.worst_texts]
    assert len(asked) == len(set(asked)) < 30


def test_a_single_pair_is_shown_too(model: Model) -> None:
    examples = examples_of(model, source(1))
    assert isinstance(examples, ExampleSets)
    assert [query.correct for query in examples.best_texts] == [[True]]
    assert [query.labelled for query in examples.worst_images] == [[True]]
