"""CoCa's towers: what sees what, the poolers read aloud, and texts that are read as they grow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from small_coca import IMAGE, TEXT, small_coca
from small_model import random_batch
from torch import Tensor

from equipoise.encoders import TEXT_ENCODERS, CoCaImage, CoCaText, TextTransformer
from equipoise.encoders.cross_attention import AttentionalPooler
from equipoise.encoders.key_value_cache import KeyValueCache
from equipoise.encoders.packing import Even, Packed
from equipoise.types import UserError

BOTH_MASKS = pytest.mark.parametrize("legacy", [False, True])


def text_tower(legacy: bool = False) -> CoCaText:
    torch.manual_seed(1)
    return replace(TEXT, legacy_mask=legacy).build(40, 8).double().eval()


def attended(x: Tensor, seen: Tensor, tower: CoCaText) -> Tensor:
    """Blocks of a text [L, w], one head and one token after the other."""
    for block in tower.transformer.blocks:
        q, k, v = block.attention.qkv(block.ln_1(x)).unflatten(-1, (3, 2, -1)).unbind(1)
        found = torch.zeros_like(x)
        for token in range(len(x)):
            for head in range(2):
                keys = seen[token].nonzero()[:, 0]
                weight = torch.softmax(k[keys, head] @ q[token, head] / math.sqrt(q.shape[-1]), 0)
                found[token, head * 6 : head * 6 + 6] = weight @ v[keys, head]
        x = x + block.attention.out(found)
        x = x + block.mlp_out(block.act(block.mlp_in(block.ln_2(x))))
    return x


@BOTH_MASKS
def test_words_see_the_past_and_the_class_its_text(legacy):
    tower, batch = text_tower(legacy), random_batch(6)
    found = tower(batch.tokens, batch.mask)
    for i, length in enumerate(batch.mask.sum(1).tolist()):
        ids = batch.tokens[i, :length]
        follows = [0] if legacy and length < 8 else []  # a padding token
        read = torch.cat([ids, torch.tensor(follows, dtype=torch.long)])
        x = tower.words(read) + tower.positions[: len(read)]
        x = torch.cat([x, (tower.class_token + tower.positions[8])[None]])
        seen = torch.ones(len(x), len(x)).tril().bool()
        seen[-1, -1] = not follows
        x = attended(x, seen, tower)
        torch.testing.assert_close(found.classes[i, 0], tower.ln_final(x[-1]))
        torch.testing.assert_close(found.tokens[i, :length], x[:length])


@BOTH_MASKS
def test_padding_and_the_width_of_a_batch_change_nothing(legacy):
    tower, batch = text_tower(legacy), random_batch(6)
    whole = tower(batch.tokens, batch.mask)
    torch.testing.assert_close(tower(batch.tokens, batch.mask, classes_only=True).classes, whole.classes)
    for i, length in enumerate(batch.mask.sum(1).tolist()):
        alone = tower(batch.tokens[i : i + 1, :length], batch.mask[i : i + 1, :length])
        torch.testing.assert_close(alone.classes[0], whole.classes[i])
        torch.testing.assert_close(alone.tokens[0], whole.tokens[i, :length])
    other = torch.where(batch.mask, batch.tokens, 7)
    torch.testing.assert_close(tower(other, batch.mask).classes, whole.classes)


def test_a_text_that_is_too_long_is_refused():
    with pytest.raises(UserError, match="context of 8"):
        text_tower()(torch.ones(1, 9, dtype=torch.long), torch.ones(1, 9, dtype=torch.bool))


@pytest.mark.parametrize("name", ["coca", "causal", "causal-normed"])
@pytest.mark.parametrize("parts", [[1] * 8, [3, 1, 4], [8]])
def test_a_text_read_as_it_grows_has_the_features_of_the_whole(name, parts):
    torch.manual_seed(2)
    plain = TextTransformer.Config(width=12, layers=2, heads=2, embedding_norm=name == "causal-normed")
    tower = (TEXT if name == "coca" else plain).build(40, 8).double().eval()
    ids = torch.randint(1, 40, (3, 8))
    past, found = KeyValueCache(8), []
    for part in ids.split(parts, dim=1):
        found.append(tower.continued(part, past))
    whole = tower(ids, torch.ones(3, 8, dtype=torch.bool)).tokens
    torch.testing.assert_close(torch.cat(found, 1), whole)
    assert past.length == 8


def test_rows_that_are_taken_in_another_order_go_on_from_there():
    tower, ids = text_tower(), torch.randint(1, 40, (3, 8))
    past, rows = KeyValueCache(8), torch.tensor([2, 2, 0])
    tower.continued(ids[:, :5], past)
    past.reorder(rows)
    found = tower.continued(ids[:, 5:], past)
    mixed = torch.cat([ids[rows, :5], ids[:, 5:]], 1)
    torch.testing.assert_close(found, tower(mixed, torch.ones(3, 8, dtype=torch.bool)).tokens[:, 5:])


def test_a_tower_that_sees_later_words_cannot_go_on():
    tower = TEXT_ENCODERS["bert-nano"].build(40, 8)
    with pytest.raises(UserError, match="causal"):
        tower.continued(torch.ones(1, 1, dtype=torch.long), KeyValueCache(8))


def pooled_by_hand(pool: AttentionalPooler, tokens: Tensor) -> Tensor:
    """[P, w'] to [queries, w], one query and one head after the other."""
    attention, keys = pool.attention, pool.ln_k(tokens)
    q = attention.q(pool.ln_q(pool.query)).unflatten(-1, (2, -1))
    k, v = attention.kv(keys).unflatten(-1, (2, 2, -1)).unbind(1)
    found = []
    for query in q:
        heads = [
            torch.softmax(k[:, h] @ query[h] / math.sqrt(query.shape[-1]), 0) @ v[:, h] for h in range(attention.heads)
        ]
        found.append(attention.out(torch.cat(heads)))
    return torch.stack(found)


@pytest.mark.parametrize("pooling", ["single", "cascade", "parallel"])
def test_poolers_read_aloud(pooling):
    torch.manual_seed(3)
    tower = replace(IMAGE, pooling=pooling).build(16).double().eval()
    images = random_batch(3).images
    found, classes = tower(images), tower(images, classes_only=True).classes
    inner = tower.vit(images)
    for i in range(3):
        x = torch.cat([inner.classes[i], inner.tokens[i]])
        if pooling == "single":
            everything = tower.ln_post(pooled_by_hand(tower.pool, x))
            first, others = everything[:1], everything[1:]
        else:
            x = tower.ln_post(x)
            others = pooled_by_hand(tower.pool, x)
            first = pooled_by_hand(tower.class_pool, others if pooling == "cascade" else x)
        torch.testing.assert_close(found.classes[i], first)
        torch.testing.assert_close(classes[i], first)
        torch.testing.assert_close(found.tokens[i], others)
    assert found.tokens.shape == (3, 4 if pooling == "single" else 5, 12)


@pytest.mark.parametrize(("wrong", "said"), [({"pooling": "mean"}, "pooling"), ({"queries": 1}, "queries"),
                                         ({"heads": 0}, "heads"), ({"pool_heads": -1}, "pool_heads")])  # fmt: skip
def test_settings_that_cannot_be_meant_are_refused(wrong, said):
    with pytest.raises(UserError, match=said):
        replace(IMAGE, **wrong)


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(UserError, match="heads"):
        CoCaImage.Config(8, 16, 2, 2, pooled=10, pool_heads=4).build(16)


def test_several_class_tokens_are_refused():
    for config, size in ((IMAGE, (16,)), (TEXT, (40, 8))):
        with pytest.raises(UserError, match="class token"):
            config.build(*size, classes=2)


def test_words_of_different_lengths_ask_a_picture_as_if_they_were_alone():
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]]).bool()
    layout = Packed.of(mask, causal=True)
    q, kv = torch.randn(4, 2, 3).double(), torch.randn(2, 5, 2, 2, 3).double()
    seen = torch.tensor([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]]).bool()
    for real in (None, seen):
        found = layout.attend_to_others(q, kv, real)
        for row, sample in enumerate([0, 0, 0, 1]):
            keys = kv[sample][slice(None) if real is None else real[sample]]
            alone = Even().attend_to_others(q[row][None, None], keys[None])
            torch.testing.assert_close(found[row], alone[0, 0])


def test_recomputed_activations_give_the_same_gradients():
    def gradients(wanted: bool) -> list[Tensor]:
        model = small_coca().train()
        for part in (model.image_encoder, model.text_encoder, *model.all_heads()):
            part.recompute_activations(wanted)
        made = model(random_batch(4), ("image", "text", "caption_cost"))
        (made.further["caption_cost"].sum() + (made.image * made.text).sum()).backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    for plain, again in zip(gradients(False), gradients(True), strict=True):
        torch.testing.assert_close(again, plain)
