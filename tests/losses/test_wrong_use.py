"""What gives a number and cannot be meant is one sentence."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import equipoise as eq
from equipoise.kernels import Scoring
from equipoise.losses import CLIPLoss, CodeBook, CyCLIPLoss, DeCLIPLoss, M2MixLoss, PairLoss, SigLIPLoss, SoftCLIPLoss
from equipoise.objectives import CLIP
from equipoise.types import Batch, Embeddings, Loss, UserError

T = math.log(1 / 0.07)


class Unweighted(CLIP):
    """An objective of the reader's own that knows nothing of weights."""

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        total = scoring.contrast(embeddings.image, embeddings.text, target=self.target, form=self.form)
        return Loss(total, {"contrastive": total})


def points(n: int = 6, dim: int = 16) -> Tensor:
    return F.normalize(torch.randn(n, dim, generator=torch.Generator().manual_seed(n + dim)), dim=-1)


def says(match: str) -> pytest.RaisesContext:
    return pytest.raises(UserError, match=match)


@pytest.mark.parametrize("loss", [CLIPLoss(), SoftCLIPLoss(), M2MixLoss(), CyCLIPLoss()])
def test_features_that_are_not_points_of_the_space(loss):
    u, wrong = points(), torch.cat([points()[:4], 3 * points()[4:]])
    with says(r"text_features are not points of the Sphere: row 4 .*loss\.project"):
        loss(u, wrong, 10.0)


def test_points_of_another_space():
    u, product = points(), eq.ProductSphere(4, 4)
    with says("image_features are not points of the Sphere"):
        CLIPLoss()(product.project(u), product.project(u), 10.0)
    with says("image_features are not points of the ProductSphere"):
        CLIPLoss(space=product)(u, u, 10.0)
    with says("features have 16 numbers each, but points of the Sphere 8; give a space as wide"):
        CLIPLoss(space=eq.Sphere(8))(u, u, 10.0)
    with says(r"16 numbers are not divided by 64 .*ProductSphere\(n, m\)"):
        CLIPLoss(space="product_sphere")(u, u, 10.0)
    wide = F.normalize(torch.randn(4, 64), dim=1)
    with says(r"64 numbers have room for one factor .*ProductSphere\(n, m\) with n·m = 64"):
        CLIPLoss(space="product_sphere")(wide, wide, 10.0)
    with says("space must be a Space or one of sphere, euclidean.*'spher'"):
        CLIPLoss(space="spher")


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (nn.Parameter(torch.tensor(T)), r"parameter itself.*logit_scale\.exp\(\)"),
        (torch.tensor(T), r"ln\(1/0\.07\).*exp\(t\)"),
        (math.log(100), r"ln\(100\)"),
        (math.log(10), r"ln\(10\)"),
        (torch.tensor(-0.3), "above 0"),
        (torch.tensor([[math.exp(14.3)]]), "once, not twice"),
        (0.07, "temperature; hand in 1/τ = 14.29"),
        (torch.ones(3), r"one number, not a tensor of the shape \[3\]"),
        (torch.tensor(2.66), r"ln\(1/0\.07\), rounded, a logarithm"),
        (None, "logit_scale must be one number.*not NoneType"),
        (torch.tensor(14.3, device="meta"), "logit_scale is on meta and image_features on cpu; move either"),
    ],
)
def test_a_logarithm_or_a_temperature_in_place_of_the_scale(given, match):
    with says(match):
        CLIPLoss()(points(), points(), given)


def test_a_scale_that_is_learned_may_pass_any_number():
    loss = CLIPLoss()
    for scale in (14.0, T, 4.60517, 0.3):
        assert loss(points(), points(), torch.tensor(scale)) >= 0


def test_features_that_do_not_go_together():
    u = points()
    with says("6 image_features and 5 text_features; row i of both must be one pair"):
        CLIPLoss()(u, points(5), 10.0)
    with says("image_features have 16 numbers each and text_features 8"):
        CLIPLoss()(u, points(6, 8), 10.0)
    with says("image_features are torch.float32 and text_features torch.float64"):
        CLIPLoss()(u, u.double(), 10.0)
    with says("image_features are cpu and text_features meta"):
        CLIPLoss()(u, u.to("meta"), 10.0)
    with says(r"image_features must be \[N, d\]"):
        CLIPLoss()(u[0], u[0], 10.0)
    with says(r"text_features must be \[N, d\] of floating-point numbers.*int64"):
        CLIPLoss()(u, u.long(), 10.0)


def test_features_that_are_no_tensors():
    u = points()
    for wrong, kind in ((u.numpy(), "ndarray"), ([u], "list"), (None, "NoneType")):
        with says(rf"image_features must be a tensor \[N, d\], not {kind}"):
            CLIPLoss()(wrong, u, 10.0)
        with says(rf"text_features must be a tensor \[N, d\], not {kind}"):
            SoftCLIPLoss()(u, wrong, 10.0)


def test_labels_where_the_bias_belongs():
    with says(r"logit_bias must be one number, not a tensor of the shape \[6\]"):
        CLIPLoss()(points(), points(), 10.0, torch.arange(6))
    with says("logit_bias is on meta"):
        SigLIPLoss()(points(), points(), 10.0, torch.tensor(-10.0, device="meta"))


def test_a_guide_of_another_kind():
    u = points()
    for wrong, kind in ((u.numpy(), "ndarray"), ((u, u, u), "tuple"), ("image_text", "str")):
        with says(f"the guide's image_vectors must be a tensor with a row per pair, not {kind}"):
            SoftCLIPLoss()(u, u, 10.0, guide=wrong)
    with says(r"belongs to a batch; hand it in with its features, as loss\(\.\.\., guide="):
        SoftCLIPLoss(guide=u)


def test_a_guide_or_weights_that_do_not_go_with_the_pairs():
    u = points()
    with says("image_vectors has 5 rows, but there are 6 pairs"):
        SoftCLIPLoss()(u, u, 10.0, guide=points(5))
    with says("text_vectors has 4 rows, but there are 6 pairs"):
        SoftCLIPLoss()(u, u, 10.0, guide=(u, points(4)))
    with says("image_vectors is on meta and image_features on cpu"):
        SoftCLIPLoss()(u, u, 10.0, guide=u.to("meta"))
    with says("needs regions, tags beside image and text; hand it in by keyword, as regions="):
        SoftCLIPLoss("regions_tags")(u, u, 10.0)
    with says("regions are not points of the Sphere"):
        SoftCLIPLoss("regions_tags")(u, u, 10.0, regions=2 * u, tags=u)
    with says("tags is torch.float64"):
        SoftCLIPLoss("regions_tags")(u, u, 10.0, regions=u, tags=u.double())
    with says("guide must be one of regions_tags"):
        SoftCLIPLoss("regions")
    with says("weights has 3 rows, but there are 6 pairs"):
        CLIPLoss()(u, u, 10.0, weights=torch.ones(3))
    with says("that of pair 2 is -1"):
        CLIPLoss()(u, u, 10.0, weights=torch.tensor([1.0, 1, -1, 1, 1, 1]))
    with says("weights must be a tensor"):
        CLIPLoss()(u, u, 10.0, weights=[1.0] * 6)


def test_what_nobody_reads_is_not_taken_silently():
    u = points()
    with says("caption was handed in, but the loss with these settings does not read it"):
        CLIPLoss()(u, u, 10.0, caption=torch.arange(6))
    with says("regions was handed in, but CLIP"):
        CLIPLoss()(u, u, 10.0, regions=u)
    with says("weights was handed in"):
        PairLoss(Unweighted())(u, u, 10.0, weights=torch.ones(6))
    with says(r"the batch has no 'label' to compare samples by \(it has index\); give it label="):
        CLIPLoss(target="labels")(u, u, 10.0)
    with says("there is no 'image_vectors' to guide the target; give the batch image_vectors="):
        SoftCLIPLoss("vectors")(u, u, 10.0)
    with says("needs image_view2, text_view2"):
        DeCLIPLoss()(u, u, 10.0)


def test_settings_that_are_impossible():
    with says("exchange must be one of auto, gathered, ring, everything, local"):
        CLIPLoss(exchange="all")
    with says("M3Mix with these settings cannot be divided among ranks"):
        M2MixLoss(exchange="ring")
    with says("give steps="):
        SoftCLIPLoss(ramp=0.2)
    with says("steps must be at least 0"):
        CLIPLoss(steps=-1)


def test_a_code_book_is_given_tokens():
    book = CodeBook(4, 4, 8, codes=5)
    with says(r"image_tokens must be \[N, tokens, width\]"):
        book.encode_image(torch.randn(2, 4))
    with says(r"mask of text_tokens must be \[2, 3\], not \[3, 2\]"):
        book.encode_text(torch.randn(2, 3, 4), torch.ones(3, 2))
    with says("tower must be image or text"):
        book.shares("words", torch.randn(2, 3, 4))
