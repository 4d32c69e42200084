"""Targets against their formulas read aloud, whole and in blocks."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import equipoise as eq
from equipoise.targets import GUIDES, Duplicates, Guide, OneHot, SharedKeys, Smoothed, Softened, Target
from equipoise.types import Batch, Embeddings, UserError

N = 7
SPACE = eq.Sphere(5)
LIKE = torch.zeros(1, dtype=torch.float64)


def embeddings() -> Embeddings:
    make = torch.Generator().manual_seed(3)
    return Embeddings(*(SPACE.project(torch.randn(N, 5, generator=make, dtype=torch.float64)) for _ in range(4)))


def batch(**side: Tensor) -> Batch:
    index = torch.arange(N)
    return Batch(index, index, index, index, side)


def bound(target: Target, t: float = 1.0, **side: Tensor) -> Target:
    return target.bind(embeddings(), batch(**side), log_scale=t, space=SPACE).sized(N, N)


def shares(target: Target, rows: range = range(N), cols: range = range(N)) -> tuple[Tensor, Tensor]:
    """By row and by column; a guided target is given its norms, computed from all scores."""
    like = LIKE.expand(len(rows), len(cols))
    scores = target.scores(rows, cols, like)
    if target.guided:
        whole = target.scores(range(N), range(N), LIKE.expand(N, N))
        norms = whole.by_row.logsumexp(1)[rows.start : rows.stop], whole.by_col.logsumexp(0)[cols.start : cols.stop]
        scores = scores._replace(row_norms=norms[0], col_norms=norms[1])
    block = target.block(rows, cols, like, scores)
    nothing = torch.zeros(len(rows), len(cols), dtype=torch.float64)
    return tuple(nothing if x is None else x.expand_as(nothing) for x in (block.by_row, block.by_col))


SIDE = {"caption": torch.tensor([4, 4, 9, 1, 9, 4, 3]), "label": torch.tensor([0, 1, 1, 2, 2, 2, 3])}
ALL = {
    "one hot": OneHot(),
    "duplicates": Duplicates(),
    "labels or captions": Duplicates(("label", "caption")),
    "smoothed": Smoothed(),
    "smoothed duplicates": Smoothed(of=Duplicates()),
    "softened": Softened(),
    "softened duplicates": Softened(of=Duplicates()),
    "mixed": Softened(gamma=0.4),
    "teacher": Softened(guide=Guide("image", "text", across=True)),
}


@pytest.mark.parametrize("target", ALL.values(), ids=ALL)
def test_shares_sum_to_one_and_blocks_make_up_the_whole(target):
    target = bound(target, **SIDE)
    by_row, by_col = shares(target)
    torch.testing.assert_close(by_row.sum(1), torch.ones(N, dtype=torch.float64))
    torch.testing.assert_close(by_col.sum(0), torch.ones(N, dtype=torch.float64))
    assert bool((by_row > 0).all() & (by_col > 0).all()) == target.soft
    for r, c in itertools.product((range(0, 3), range(3, 7)), (range(0, 2), range(2, 6), range(6, 7))):
        for part, whole in zip(shares(target, r, c), (by_row, by_col), strict=True):
            torch.testing.assert_close(part, whole[r.start : r.stop, c.start : c.stop], rtol=0, atol=1e-14)


def test_label_smoothing_is_equation_5():
    by_row, by_col = shares(bound(Smoothed(alpha=0.2)))
    for i in range(N):
        for j in range(N):
            y = 1.0 if i == j else 0.0
            expected = (1 - 0.2) * y + 0.2 / (N - 1) * (1 - y)
            assert float(by_row[i, j]) == pytest.approx(expected, abs=1e-15)
    torch.testing.assert_close(by_row, by_col)


def test_duplicates_share_evenly():
    keys = (SIDE["label"].tolist(), SIDE["caption"].tolist())
    by_row, by_col = shares(bound(Duplicates(("label", "caption")), **SIDE))
    for i in range(N):
        alike = [j for j in range(N) if any(key[i] == key[j] for key in keys)]
        for j in range(N):
            assert float(by_row[i, j]) == pytest.approx(1 / len(alike) if j in alike else 0, abs=1e-15)
    torch.testing.assert_close(by_col, by_row.T)


def test_counts_of_three_keys():
    keys = torch.randint(0, 4, (3, 40), generator=torch.Generator().manual_seed(0))
    by_hand = (keys[:, :, None] == keys[:, None]).any(0).sum(1)
    torch.testing.assert_close(SharedKeys(keys).counts(range(40), LIKE).long(), by_hand)


def test_without_duplicates_the_target_is_one_hot():
    for found in shares(bound(Duplicates(), caption=torch.arange(N))):
        torch.testing.assert_close(found, torch.eye(N, dtype=torch.float64))


@pytest.mark.parametrize("beta", [1e-4, 0.3, 1.0])
def test_softened_targets_are_equations_6_to_9(beta):
    by_row, by_col = shares(bound(Softened(beta), t=1.0))
    e = embeddings()
    for i in range(N):
        for j in range(N):
            y = 1.0 if i == j else 0.0
            for points, found in ((e.regions, by_row[i, j]), (e.tags, by_col[j, i])):
                row = [math.exp(math.e * float(points[i] @ points[k])) for k in range(N)]
                assert float(found) == pytest.approx((1 - beta) * y + beta * row[j] / sum(row), abs=1e-14)


def test_a_teacher_judges_image_against_text():
    e = embeddings()
    side = {"teacher_image": e.regions * 2, "teacher_text": e.tags}
    target = Softened(0.4, guide=Guide("teacher_image", "teacher_text", across=True, scale=5.0))
    by_row, by_col = shares(bound(target, **side))
    similar = 5.0 * e.regions @ e.tags.T
    eye = torch.eye(N, dtype=torch.float64)
    torch.testing.assert_close(by_row, 0.6 * eye + 0.4 * similar.softmax(1))
    torch.testing.assert_close(by_col, 0.6 * eye + 0.4 * similar.softmax(0))


def test_mixed_guides_mix_their_scores():
    e = embeddings()
    by_row, by_col = shares(bound(Softened(1.0, gamma=0.25), t=0.0))
    torch.testing.assert_close(by_row, (0.25 * e.regions @ e.regions.T + 0.75 * e.image @ e.image.T).softmax(1))
    torch.testing.assert_close(by_col, (0.25 * e.tags @ e.tags.T + 0.75 * e.text @ e.text.T).softmax(0))


def test_targets_say_what_they_need():
    assert Softened().needs == ("regions", "tags")
    assert Softened(gamma=0.5).needs == ("regions", "tags", "image", "text")
    assert Softened(guide=GUIDES["teacher"]).needs == ()
    assert eq.objectives.CLIP(target=Softened()).needs == ("image", "text", "regions", "tags")
    assert eq.objectives.CLIP().needs == ("image", "text")


@pytest.mark.parametrize(
    ("target", "side", "sentence"),
    [
        (Duplicates(("colour",)), SIDE, r"no 'colour' to compare samples by \(it has index, caption, label\)"),
        (Duplicates(("caption",)), {"caption": torch.zeros(N)}, "give one whole number a sample"),
        (Softened(guide=Guide("image", "text_vectors", across=True)), {"text_vectors": torch.ones(N, 4)}, "different"),
    ],
)
def test_what_cannot_be_bound_gets_a_sentence(target, side, sentence):
    with pytest.raises(UserError, match=sentence):
        bound(target, **side)


@pytest.mark.parametrize("target", [Duplicates(), Smoothed(of=Duplicates()), Softened()])
def test_an_unbound_target_says_so(target):
    e = embeddings()
    with pytest.raises(UserError, match="bound to a batch"):
        eq.contrast(e.image, e.text, space=SPACE, target=target, form=eq.CrossEntropy(), impl="eager")


def test_a_target_of_another_batch_is_refused():
    e = embeddings()
    for target, sentence in ((bound(Duplicates(), **SIDE), "knows 7 samples"), (bound(Softened()), "knows 7 samples")):
        with pytest.raises(UserError, match=sentence):
            eq.contrast(e.image[:5], e.text[:5], space=SPACE, target=target, form=eq.CrossEntropy())


def test_forms_refuse_targets_that_make_no_sense():
    e = embeddings()
    for form in (eq.Divergence("symmetric_kl"), eq.Divergence("kl", among="negatives")):
        with pytest.raises(UserError, match="needs a target that gives everybody a share"):
            eq.contrast(e.image, e.text, space=SPACE, target=OneHot(), form=form)


@pytest.mark.parametrize(
    "make", [lambda: Smoothed(0.0), lambda: Softened(0.0), lambda: Softened(gamma=-1), lambda: Guide(scale=-1)]
)
def test_bad_settings_get_a_sentence(make):
    with pytest.raises(UserError, match="must be"):
        make()
