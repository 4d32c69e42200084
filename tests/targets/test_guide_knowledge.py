"""What a guide knows, its scale by a wanted share of the match, and fixed vectors: against loops in float64."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor

import equipoise as eq
from equipoise.data.scenes import Scenes
from equipoise.objectives import CLIP, SoftCLIP
from equipoise.targets import GUIDES, Guide, Softened
from equipoise.targets.fixed_vectors import region_vectors, tag_vectors, word_vectors
from equipoise.targets.guide_health import auc, guide_facts
from equipoise.targets.guide_scale import MOST, log_scale_for
from equipoise.targets.softened import SoftenedBy, ramped
from equipoise.types import Batch, Embeddings, StepInfo, UserError

SPACE = eq.Sphere(8)
T = math.log(5.0)


def points(n: int, roles: int = 4, seed: int = 0) -> list[Tensor]:
    make = torch.Generator().manual_seed(seed)
    return [SPACE.project(torch.randn(n, 8, generator=make, dtype=torch.float64)) for _ in range(roles)]


def batch_of(n: int, step: int = 1, steps: int = 1, **side: Tensor) -> Batch:
    index = torch.arange(n)
    return Batch(index, index, index, index, side, StepInfo(0, step, steps))


def bound(guide: Guide, batch: Batch | None, *roles: Tensor, beta: float = 0.3, t: float = T) -> SoftenedBy:
    made = Softened(beta, guide=guide).bind(Embeddings(*roles), batch, log_scale=t, space=SPACE)
    assert isinstance(made, SoftenedBy)
    return made


def softmax(scores: list[float]) -> list[float]:
    parts = [math.exp(score - max(scores)) for score in scores]
    return [part / sum(parts) for part in parts]


def by_hand(similarity: list[list[float]], scale: float, beta: float) -> dict[str, float]:
    """Of a matrix whose rows are guided."""
    shares = [softmax([scale * one for one in row]) for row in similarity]
    matches = [row[i] for i, row in enumerate(shares)]
    counts = []
    for i, row in enumerate(shares):
        rest = [share / (1 - row[i]) for j, share in enumerate(row) if j != i]
        counts.append(math.exp(-sum(share * math.log(share) for share in rest)))
    n = len(shares)
    return {"match": sum(matches) / n, "beta": beta * (1 - sum(matches) / n), "negatives": sum(counts) / n}


def auc_by_hand(scores: list[float], positive: list[bool]) -> float:
    pairs = [(a > b) + (a == b) / 2 for a, p in zip(scores, positive, strict=True) if p
             for b, q in zip(scores, positive, strict=True) if not q]  # fmt: skip
    return sum(pairs) / len(pairs)


@pytest.mark.parametrize("across", [False, True])
def test_what_a_guide_knows_read_aloud(across: bool) -> None:
    _, _, r, a = points(7)
    found = guide_facts(bound(Guide(across=across), None, *points(7)), None)
    left = {"image": (r, a) if across else (r, r), "text": (r, a) if across else (a, a)}
    for side, (one, other) in left.items():
        matrix = (one @ other.T).tolist() if side == "image" else (one @ other.T).T.tolist()
        expected = by_hand(matrix, 5.0, 0.3)
        assert {name: found[f"guide/{name}_{side}"] for name in expected} == pytest.approx(expected, abs=1e-9)


def test_samples_without_a_guide_do_not_count() -> None:
    vectors = points(6, 1)[0]
    known = torch.tensor([True, True, False, True, False, True])
    batch = batch_of(6, image_vectors=vectors, text_vectors=vectors, has_image_vectors=known)
    found = guide_facts(bound(GUIDES["vectors"], batch, *points(6, 2)), batch)
    shares = [softmax([5 * one for one in row]) for row in (vectors @ vectors.T).tolist()]
    wanted = [shares[i][i] for i in range(6) if known[i]]
    assert found["guide/match_image"] == pytest.approx(sum(wanted) / len(wanted), abs=1e-9)
    assert found["guide/match_text"] == pytest.approx(sum(shares[i][i] for i in range(6)) / 6, abs=1e-9)


def test_auc_against_all_pairs() -> None:
    make = torch.Generator().manual_seed(1)
    scores = torch.randint(0, 6, (40,), generator=make).double()  # with ties
    positive = torch.rand(40, generator=make) < 0.3
    assert auc(scores, positive) == pytest.approx(auc_by_hand(scores.tolist(), positive.tolist()))
    assert auc(scores, torch.zeros(40, dtype=torch.bool)) == 0.5


def test_the_truth_of_labels_is_held_against_the_guide() -> None:
    """A guide made of the labels themselves is right, one that is drawn at random is not."""
    labels = torch.arange(40) % 8
    knowing, blind = (
        torch.eye(8)[labels] + 0.01 * torch.randn(40, 8, generator=torch.Generator().manual_seed(0)),
        (points(40, 1, seed=5)[0].float()),
    )
    batch = batch_of(40, image_vectors=knowing, text_vectors=blind, label=labels)
    with pytest.warns(UserWarning, match="texts' guide does not score"):
        found = guide_facts(bound(GUIDES["vectors"], batch, *points(40, 2)), batch)
    assert found["guide/auc_image"] == 1.0
    assert found["guide/auc_text"] == pytest.approx(0.5, abs=0.06)
    rows = torch.nn.functional.normalize(blind, dim=1).double()
    off = ~torch.eye(40, dtype=torch.bool)
    truth = (labels[:, None] == labels)[off]
    expected = auc_by_hand((rows @ rows.T)[off].tolist(), truth.tolist())
    assert found["guide/auc_text"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("vectors", "scale", "told"),
    [
        (torch.eye(12), 50.0, "more than 99%"),
        (torch.ones(12, 4), 5.0, "gives all others the same"),
    ],
)
def test_a_guide_that_knows_nothing_is_told(vectors: Tensor, scale: float, told: str) -> None:
    batch = batch_of(12, image_vectors=vectors, text_vectors=vectors)
    guide = Guide(by_row="image_vectors", by_col="text_vectors", scale=scale)
    loss = CLIP(Softened(guide=guide))(Embeddings(*points(12, 2)), batch, log_scale=T, space=SPACE)
    with pytest.warns(UserWarning, match=told):
        loss.facts()


def test_a_share_that_samples_which_are_the_same_cannot_have_is_told() -> None:
    """To a detector two pictures of a person are the same."""
    alike = torch.eye(4, 8).repeat(8, 1)
    alike[0] = 1.0
    batch = batch_of(32, step=5, steps=10, image_vectors=alike)
    guide = Guide(by_row="image_vectors", by_col="image_vectors", match_share=0.5)
    with pytest.warns(UserWarning, match="cannot leave what it should to the match.*set guide.scale"):
        found = guide_facts(bound(guide, batch, *points(32)), batch)
    assert not any("spread" in name for name in found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guide_facts(bound(Guide(by_row="image_vectors", by_col="image_vectors", scale=5.0), batch, *points(32)), batch)


def test_a_guide_that_is_trained_may_know_nothing_at_first() -> None:
    same = points(12, 1)[0][:1].expand(12, -1)
    roles = (*points(12, 2), same, same)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guide_facts(bound(Guide(), batch_of(12, 1, 100), *roles), batch_of(12, 1, 100))
    with pytest.warns(UserWarning, match="gives all others the same"):
        guide_facts(bound(Guide(), batch_of(12, 50, 100), *roles), batch_of(12, 50, 100))


@pytest.mark.parametrize("wanted", [0.2, 0.5, 0.9])
def test_the_scale_gives_the_wanted_share(wanted: float) -> None:
    _, _, r, a = points(30)
    r = SPACE.project(r + 20)  # cosines all near 1
    for guide in bound(Guide(match_share=wanted), None, *points(30, 2), r, a).rows:
        shares = [softmax([float(guide[1].log_scale.exp()) * one for one in row]) for row in (r @ r.T).tolist()]
        assert sum(row[i] for i, row in enumerate(shares)) / 30 == pytest.approx(wanted, abs=1e-6)
    found = guide_facts(bound(Guide(match_share=wanted), None, *points(30, 2), r, a), None)
    assert found["guide/match_image"] == pytest.approx(wanted, abs=1e-6)
    assert found["guide/match_text"] == pytest.approx(wanted, abs=1e-6)


def test_a_share_that_no_scale_gives_ends_at_a_bound() -> None:
    alike = torch.ones(4, 4, dtype=torch.float64)
    assert float(log_scale_for(alike, 0.9)) == pytest.approx(math.log(MOST))


def test_the_scale_is_no_part_of_the_gradient_and_needs_the_whole_batch() -> None:
    roles = [x.requires_grad_() for x in points(9)]
    objective = SoftCLIP(guide=Guide(match_share=0.6))
    objective(Embeddings(*roles), None, log_scale=torch.tensor(T, requires_grad=True), space=SPACE).total.backward()
    assert roles[2].grad is not None
    assert not objective.divisible
    assert SoftCLIP().divisible


@pytest.mark.parametrize("wrong", [{"match_share": 1.0}, {"match_share": -0.1}, {"match_share": 0.5, "scale": 3.0}])
def test_scales_that_cannot_be_meant(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match="match_share"):
        Guide(**wrong)


def test_warm_up_is_clip_and_beta_rises() -> None:
    u, v, r, a = points(9)
    objective = SoftCLIP(warmup=0.2, ramp=0.4)

    def loss(step: int, what: eq.objectives.Objective = objective) -> float:
        return float(what(Embeddings(u, v, r, a), batch_of(9, step, 101), log_scale=T, space=SPACE).total)

    assert loss(1) == loss(20) == pytest.approx(loss(1, CLIP()))
    assert loss(41) == pytest.approx(loss(1, SoftCLIP(beta=0.15)))  # half of the ramp, which is from 0.2 to 0.6
    assert loss(61) == pytest.approx(loss(1, SoftCLIP()))
    assert loss(101) == pytest.approx(loss(1, SoftCLIP()))
    assert loss(21) > 0
    assert math.isfinite(loss(21))
    assert ramped(0.3, StepInfo(0, 1, 101), 0.0) == 0.3


def test_warm_up_leaves_guides_a_gradient_of_zero() -> None:
    """Several processes wait for the gradient of every parameter."""
    roles = [x.requires_grad_() for x in points(9)]
    loss = SoftCLIP(warmup=0.5)(Embeddings(*roles), batch_of(9, 1, 10), log_scale=T, space=SPACE)
    loss.total.backward()
    assert [float(x.grad.abs().max()) > 0 for x in roles] == [True, True, False, False]


def test_the_target_of_another_objective_has_a_ramp_too() -> None:
    u, v, r, a = points(9)
    for step, beta in ((51, 0.2), (101, 0.4)):
        rising, fixed = (CLIP(Softened(b, ramp=ramp))(Embeddings(u, v, r, a), batch_of(9, step, 101), log_scale=T,
                         space=SPACE).total for b, ramp in ((0.4, 1.0), (beta, 0.0)))  # fmt: skip
        assert float(rising) == pytest.approx(float(fixed), abs=1e-12)


@pytest.mark.parametrize("wrong", [lambda: SoftCLIP(warmup=1.5), lambda: SoftCLIP(ramp=-1), lambda: Softened(ramp=2)])
def test_shares_of_the_run(wrong) -> None:
    with pytest.raises(UserError, match="share of the run"):
        wrong()


def test_words_in_common_are_counted() -> None:
    ids = torch.arange(200)
    vectors = word_vectors(ids).double()
    cosine = vectors @ vectors.T
    assert torch.allclose(cosine.diagonal(), torch.ones(200, dtype=torch.float64))
    off = cosine[~torch.eye(200, dtype=torch.bool)]
    assert float(off.abs().max()) < 0.25
    assert float(off.std()) == pytest.approx(512**-0.5, rel=0.1)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    made = tag_vectors(batch_of(2, tags=torch.tensor([[3, 4, 5], [4, 3, 9]]), tags_mask=mask))
    assert torch.allclose(made.double(), torch.stack([vectors[[3, 4, 5]].sum(0), vectors[[3, 4]].sum(0)]))


def test_regions_are_averaged_by_direction() -> None:
    regions = torch.tensor([[[3.0, 4.0], [0.0, 2.0]], [[5.0, 0.0], [9.0, 9.0]], [[1.0, 1.0], [1.0, 1.0]]])
    mask = torch.tensor([[True, True], [True, False], [False, False]])
    made = region_vectors(batch_of(3, regions=regions, region_mask=mask))
    assert torch.allclose(made, torch.tensor([[0.3, 0.9], [1.0, 0.0], [0.0, 0.0]]))


def test_fixed_guides_need_what_they_are_made_of() -> None:
    with pytest.raises(UserError, match=r"data\.detector\.regions"):
        bound(GUIDES["fixed_tags"], batch_of(4), *points(4, 2))


def test_tags_of_scenes_guide_by_what_is_there() -> None:
    """A perfect detector's tags know which scenes show the same things; one that is confused knows less."""
    from equipoise.data.batches import Batches
    from equipoise.data.preprocess import Preprocess
    from equipoise.data.scenes.detector import SceneDetector
    from equipoise.data.tokenizer import CaptionTokenizer

    found = {}
    for confused in (0.0, 1.0):
        detector = SceneDetector(regions=4, confused=confused, size=16)
        source = Scenes.Config(train_size=200, min_things=1, max_things=1, detector=detector).build("train")
        captions = [caption for index in range(200) for caption in source.pair(index).captions]
        tokens = CaptionTokenizer.from_config(CaptionTokenizer.Config(vocabulary=900), captions)
        batches = Batches(source, tokens, Preprocess(size=16), batch_size=200, seed=0, device=torch.device("cpu"))
        batch = next(iter(batches.starting_at(0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = bound(GUIDES["fixed_tags"], batch, *(x.float() for x in points(200, 2)))
            found[confused] = guide_facts(made, batch)
    assert found[0.0]["guide/auc_image"] > 0.99
    assert found[1.0]["guide/auc_image"] < 0.7
    assert found[0.0]["guide/match_text"] == pytest.approx(0.5, abs=1e-4)
