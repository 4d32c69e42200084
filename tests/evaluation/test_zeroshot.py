"""Zero-shot classification against loops."""

import pytest
import torch

from equipoise.evaluation.encoding import fill
from equipoise.evaluation.zeroshot import confusion, per_class_accuracy, zero_shot, zero_shot_chance
from equipoise.types import UserError


class Sphere:
    def project(self, x):
        return torch.nn.functional.normalize(x, dim=-1)

    def similarity(self, u, v):
        return u @ v.T


SPACE = Sphere()


def world(classes=8, templates=3, images=400):
    random = torch.Generator().manual_seed(5)
    centres = torch.randn(classes, 1, 6, generator=random, dtype=torch.float64)
    prompts = SPACE.project(centres + 0.8 * torch.randn(classes, templates, 6, generator=random, dtype=torch.float64))
    labels = torch.randint(0, classes - 1, (images,), generator=random)  # the last class has no image
    points = SPACE.project(centres[labels, 0] + torch.randn(images, 6, generator=random, dtype=torch.float64))
    return points, labels, prompts


def class_scores(points, prompts, average):
    scores = torch.zeros(len(points), len(prompts), dtype=torch.float64)
    for i, u in enumerate(points):
        for c, group in enumerate(prompts):
            if average == "similarity":
                scores[i, c] = sum(float(u @ p) for p in group) / len(group)
            else:
                centre = sum(group) / len(group)
                scores[i, c] = float(u @ centre / centre.norm())
    return scores


@pytest.mark.parametrize("average", ["similarity", "embedding"])
@pytest.mark.parametrize("chunk", [7, 1024])
def test_equals_the_loops(average, chunk):
    points, labels, prompts = world()
    scores = class_scores(points, prompts, average)
    got = zero_shot(points, labels, prompts, SPACE, average=average, chunk=chunk)
    ranked = scores.argsort(dim=1, descending=True) == labels[:, None]
    assert got["acc1"] == pytest.approx(ranked[:, :1].any(dim=1).double().mean().item())
    assert got["acc5"] == pytest.approx(ranked[:, :5].any(dim=1).double().mean().item())
    predicted = scores.argmax(dim=1)
    recalls = [(predicted[labels == c] == c).double().mean().item() for c in labels.unique().tolist()]
    assert got["mean_per_class_recall"] == pytest.approx(sum(recalls) / len(recalls))
    counts = confusion(points, labels, prompts, SPACE, average=average, chunk=chunk)
    for true in range(8):
        for taken in range(8):
            assert counts[true, taken] == ((labels == true) & (predicted == taken)).sum()
    assert per_class_accuracy(counts)[:-1].tolist() == pytest.approx(recalls)
    assert per_class_accuracy(counts)[-1].isnan()


def test_the_two_averages_differ():
    points, labels, prompts = world()
    assert not torch.allclose(class_scores(points, prompts, "similarity"), class_scores(points, prompts, "embedding"))
    one = prompts[:, :1]
    assert zero_shot(points, labels, one, SPACE, "similarity") == zero_shot(points, labels, one, SPACE, "embedding")


def test_equal_scores_are_wrong():
    same = torch.eye(6)[:1]
    labels = torch.arange(6)
    prompts = same.expand(6, 2, 6)
    assert set(zero_shot(same.expand(6, 6), labels, prompts, SPACE).values()) == {0.0}
    assert confusion(same.expand(6, 6), labels, prompts, SPACE).diagonal().sum() == 0


def test_top_five_is_left_out_below_five_classes():
    points, labels, prompts = world(classes=4)
    assert set(zero_shot(points, labels, prompts, SPACE)) == {"acc1", "mean_per_class_recall"}


def test_fill():
    assert fill(["a {}", "the {c}, a {}"], ["fish", r"\1 {c}"]) == [
        ["a fish", "the fish, a fish"],
        [r"a \1 {c}", r"the \1 {c}, a \1 {c}"],
    ]


def test_mistakes_are_named():
    points, labels, prompts = world()
    with pytest.raises(UserError, match='"a photo" has no place'):
        fill(["a {}", "a photo"], ["fish"])
    with pytest.raises(UserError, match="at least one"):
        fill([], ["fish"])
    with pytest.raises(UserError, match='"median" is unknown'):
        zero_shot(points, labels, prompts, SPACE, average="median")
    with pytest.raises(UserError, match="from 0 to 7"):
        zero_shot(points, labels + 2, prompts, SPACE)
    with pytest.raises(UserError, match=r"\[classes, templates, dimensions\]"):
        zero_shot(points, labels, prompts[:, 0], SPACE)
    with pytest.raises(UserError, match="not finite"):
        zero_shot(points * torch.nan, labels, prompts, SPACE)


def test_zero_shot_chance_knows_few_classes():
    assert zero_shot_chance(4) == {"acc1": 0.25, "mean_per_class_recall": 0.25}
    assert zero_shot_chance(16)["acc5"] == 5 / 16
