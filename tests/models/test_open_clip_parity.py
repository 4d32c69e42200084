"""open_clip's ViT-B/32, random weights, loaded into our towers: the same embeddings."""

from __future__ import annotations

import pytest
import torch

from equipoise.data.preprocess import Preprocess
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS
from equipoise.interop.open_clip.keys import from_open_clip
from equipoise.models.folder import state_dict_differences
from equipoise.models.logit_scale import LogitScale
from equipoise.models.model import Model
from equipoise.readouts import ClassToken
from equipoise.spaces import Sphere
from equipoise.types import Batch, UserError

CAPTIONS = ["a diagram", "a dog and a cat on a sofa, seen from above", "x"]


class CLIPTokens:
    """Stands where a tokenizer does; its ids come from open_clip's own in this test."""

    size, context = 49408, 77


def our_twin() -> Model:
    return Model(
        image=IMAGE_ENCODERS["vit-b32"],
        text=TEXT_ENCODERS["causal-b"],
        readout=ClassToken.Config(),
        space=Sphere(512),
        temperature=LogitScale(),
        preprocess=Preprocess(size=224),
        tokens=CLIPTokens(),  # type: ignore[arg-type]
    ).eval()


@pytest.fixture(scope="module")
def peer(open_clip):
    torch.manual_seed(0)
    model = open_clip.create_model("ViT-B-32", pretrained=None).eval()
    with torch.no_grad():  # biases start at zero: disturb everything, so that no tensor can be swapped unnoticed
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model


@pytest.mark.slow
def test_embeddings_equal_open_clip(open_clip, peer):
    state = from_open_clip(peer.state_dict())
    ours = our_twin()
    assert state_dict_differences(ours.state_dict(), state) == []
    ours.load_state_dict(state)

    images = torch.randn(3, 3, 224, 224)
    ids = open_clip.tokenizer.SimpleTokenizer()(CAPTIONS)
    mask = torch.arange(77) <= ids.argmax(1, keepdim=True)
    with torch.no_grad():
        got = ours(Batch(images, ids, mask, torch.arange(3)))
        torch.testing.assert_close(got.image, peer.encode_image(images, normalize=True), rtol=0, atol=1e-5)
        torch.testing.assert_close(got.text, peer.encode_text(ids, normalize=True), rtol=0, atol=1e-5)
        torch.testing.assert_close(ours.logit_scale, peer.logit_scale)

        width = int(mask.sum(1).max())  # a batch only as wide as its longest caption gives the same points
        trimmed = ours.text_points(Batch(images, ids[:, :width], mask[:, :width], torch.arange(3)))
        torch.testing.assert_close(trimmed, got.text, rtol=0, atol=1e-5)


def test_other_weights_are_refused_with_a_sentence():
    with pytest.raises(UserError, match=r"visual\.conv1\.weight"):
        from_open_clip({"visual.trunk.weight": torch.zeros(1)})
