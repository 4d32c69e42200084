"""What captions cost, word by word, against the sum read aloud; its gradients; batches that are split."""

from __future__ import annotations

import pytest
import torch
from small_coca import DECODER, small_coca
from small_model import random_batch, small_model
from torch import Tensor

from equipoise.data.source import IMAGE_MASK
from equipoise.encoders import TextTransformer, ViT
from equipoise.encoders.packing import Even
from equipoise.encoders.precomputed import PrecomputedImage
from equipoise.heads.caption import picture_tokens
from equipoise.models.model import Model
from equipoise.types import Batch, Features, UserError

NEEDS = ("image", "text", "caption_cost", "caption_words")
TOWERS = {
    "coca": {},
    "plain": {"image": ViT.Config(8, 16, 2, 2), "text": TextTransformer.Config(width=12, layers=1, heads=2)},
}


class _Past:
    """One text [1, L, w], each word of which sees those before it."""

    def attend(self, qkv: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in qkv.unbind(-3))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        past = torch.ones(q.shape[2], q.shape[2]).tril().bool()
        return (scores.masked_fill(~past, -torch.inf).softmax(-1) @ v).transpose(1, 2)

    attend_to_others = Even.attend_to_others


def by_hand(model: Model, batch: Batch, row: int) -> float:
    """The cost of one caption, with logits of one word after the other."""
    head, length = model.heads["caption"], int(batch.mask[row].sum())
    ids = batch.tokens[row : row + 1, :length]
    image = model.image_encoder(batch.images[row : row + 1]).tokens
    total = 0.0
    for place in range(1, length):
        read = model.text_encoder(ids[:, :place], torch.ones(1, place, dtype=torch.bool)).tokens
        h = head.decoder(read, head.decoder.keys_values(image), _Past())[0, -1]
        total -= float(torch.log_softmax(head.words @ h, 0)[ids[0, place]])
    return total


@pytest.mark.parametrize("towers", TOWERS)
def test_the_cost_of_captions_read_aloud(towers):
    model, batch = small_coca(**TOWERS[towers]).eval(), random_batch(5)
    made = model(batch, NEEDS).further
    assert made["caption_words"].tolist() == (batch.mask.sum(1) - 1).tolist()
    for row in range(5):
        assert float(made["caption_cost"][row]) == pytest.approx(by_hand(model, batch, row), rel=1e-9)


def test_a_later_word_changes_the_cost_of_no_earlier_one():
    model, batch = small_coca().eval(), random_batch(1)
    ids, mask = batch.tokens[:, :6], torch.ones(1, 6, dtype=torch.bool)
    changed = ids.clone()
    changed[0, 5] = 1 + int(ids[0, 5]) % 38

    def costs(tokens: Tensor, words: int) -> float:
        cut = Batch(batch.images, tokens[:, :words], mask[:, :words], batch.index)
        return float(model(cut, NEEDS).further["caption_cost"][0])

    assert costs(changed, 5) == costs(ids, 5)
    assert costs(changed, 6) != costs(ids, 6)


def test_gradients_are_those_of_finite_differences():
    model, batch = small_coca().eval(), random_batch(3)

    def cost() -> Tensor:
        return model(batch, NEEDS).further["caption_cost"].sum()

    cost().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            assert name.split(".")[0] in ("image_readout", "text_readout", "logit_scale") or "class" in name or (
                "ln_final" in name and name.startswith("text_encoder")
            ), name  # fmt: skip
            continue
        torch.manual_seed(4)
        way = torch.randn_like(parameter)
        with torch.no_grad():
            parameter.add_(way, alpha=1e-5)
            above = float(cost())
            parameter.sub_(way, alpha=2e-5)
            below = float(cost())
            parameter.add_(way, alpha=1e-5)
        assert float((parameter.grad * way).sum()) == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-6), name


def test_a_batch_in_parts_costs_what_the_whole_costs():
    model, batch = small_coca().eval(), random_batch(6)
    whole = model(batch, NEEDS).further["caption_cost"]
    parts = [batch.map(lambda tensor, rows=rows: tensor[rows]) for rows in (slice(0, 2), slice(2, 6))]
    torch.testing.assert_close(torch.cat([model(part, NEEDS).further["caption_cost"] for part in parts]), whole)


def test_padding_among_features_of_a_picture_is_not_looked_at():
    model = small_coca(image=PrecomputedImage.Config(width=10)).eval()
    batch, features = random_batch(3), torch.randn(3, 6, 10).double()
    mask = torch.arange(6) < torch.tensor([[6], [4], [1]])

    def cost(images: Tensor) -> Tensor:
        given = Batch(images, batch.tokens, batch.mask, batch.index, {IMAGE_MASK: mask})
        return model(given, NEEDS).further["caption_cost"]

    noise = torch.where(mask[..., None], 0.0, 9.0)
    torch.testing.assert_close(cost(features + noise), cost(features))


def test_a_text_tower_that_sees_later_words_is_refused():
    with pytest.raises(UserError, match="later words"):
        small_model(readout="code_book", heads={"caption": DECODER})


def test_an_image_tower_without_tokens_is_refused():
    with pytest.raises(UserError, match="class alone"):
        picture_tokens(Features(torch.zeros(1, 1, 4)))
