"""Further views of samples: what they are, and that they depend on seed and position alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from some_files import records, write_tar

from equipoise.data.batches import Batches
from equipoise.data.features import FeatureFiles
from equipoise.data.files import Mixture, Shards
from equipoise.data.preprocess import Preprocess
from equipoise.data.sample_views import VIEWS, changed, hidden_words, mask_draws
from equipoise.data.scenes import Scenes
from equipoise.data.source import (
    ANSWERS,
    CLASS_PROMPTS,
    HIDDEN,
    IMAGE_VIEW2,
    MASKED_TEXT,
    MASKED_WORDS,
    TEXT_VIEW2,
    TEXT_VIEW2_MASK,
    Source,
)  # fmt: skip
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch, UserError

# the first is of classes, which few sources have; the second is another way to hide words
OF_SAMPLES = tuple(view for view in VIEWS if view not in (CLASS_PROMPTS, MASKED_TEXT))

SENTENCE = "a red fish above two small blue stars"


@pytest.fixture(scope="module")
def tokens() -> CaptionTokenizer:
    captions = [SENTENCE, *(f"picture {number} told in way {number}" for number in range(60))]
    return CaptionTokenizer.from_config(CaptionTokenizer.Config(vocabulary=600, context=24, mask=True), captions)


@pytest.fixture(scope="module", params=["shards", "mixture", "scenes"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    if request.param == "scenes":
        return Scenes.Config(train_size=24, validation_size=1, test_size=1, cache=False).build("train")
    folder = tmp_path_factory.mktemp("shards")
    damaged = records(24)
    damaged["00003.jpg"] = damaged["00003.jpg"][:400]
    write_tar(folder / "a.tar", damaged)
    shards = Shards(train="a.tar", validation="a.tar", root=str(folder), max_bad=1.0)
    return (Mixture.Config({"one": shards}) if request.param == "mixture" else shards).build("train")


def batches(source: Source, tokens: CaptionTokenizer, **options: object) -> Batches:
    preprocess = Preprocess(size=16, crop_scale=(0.4, 1.0))
    return Batches(source, tokens, preprocess, **{"batch_size": 8, "seed": 5, "views": OF_SAMPLES} | options)


def everything(batch: Batch) -> dict[str, torch.Tensor]:
    return {"images": batch.images, "tokens": batch.tokens, "mask": batch.mask, "index": batch.index, **batch.side}


@pytest.mark.filterwarnings("ignore:skipped")
def test_views_are_the_same_whoever_makes_them(source, tokens):
    whole = everything(batches(source, tokens).batch(4))
    made = next(batches(source, tokens, workers=1).starting_at(4))
    for name, tensor in everything(made).items():
        assert torch.equal(tensor, whole[name]), name
    for part in range(2):
        share = everything(batches(source, tokens, share=(part, 2)).batch(4))
        for name, tensor in share.items():
            mine = whole[name][4 * part : 4 * part + 4]
            cut = mine[tuple(slice(0, width) for width in tensor.shape)]  # padding may differ
            torch.testing.assert_close(tensor, cut, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:skipped")
def test_views_differ_from_what_they_are_views_of(source, tokens):
    plain, viewed = batches(source, tokens, views=()).batch(2), batches(source, tokens).batch(2)
    assert torch.equal(viewed.images, plain.images)
    assert torch.equal(viewed.side[ANSWERS], plain.tokens)
    view = viewed.side[IMAGE_VIEW2]
    assert view.shape == plain.images.shape
    assert view.dtype == plain.images.dtype
    assert not any(torch.equal(one, two) for one, two in zip(view, plain.images, strict=True))
    unlike = viewed.tokens != plain.tokens
    assert (viewed.side[HIDDEN] | ~unlike).all()
    assert IMAGE_VIEW2 not in plain.side
    seen = [ids[real].tolist() for ids, real in zip(viewed.side[TEXT_VIEW2], viewed.side[TEXT_VIEW2_MASK], strict=True)]
    said = [ids[real].tolist() for ids, real in zip(plain.tokens, plain.mask, strict=True)]
    assert seen != said
    assert {(ids[0], ids[-1]) for ids in seen} == {(tokens.start, tokens.end)}


def test_a_changed_caption_has_two_words_exchanged_or_some_left_out():
    words, kinds = SENTENCE.split(), Counter()
    for seed in range(2000):
        found = changed(SENTENCE, seed).split()
        assert found == changed(SENTENCE, seed).split()
        if Counter(found) == Counter(words) and found != words:
            kinds["exchanged"] += 1
            assert sum(one != two for one, two in zip(found, words, strict=True)) == 2
        else:
            left = iter(words)
            assert found
            assert all(word in left for word in found)  # a subsequence
            kinds["left out"] += len(words) - len(found)
    assert kinds["exchanged"] == pytest.approx(1000, abs=100)
    assert kinds["left out"] == pytest.approx(1000 * 8 * 0.1, abs=100)


@pytest.mark.parametrize("caption", ["fish", " fish ", "two words", "a b"])
def test_a_short_caption_keeps_a_word(caption):
    assert all(changed(caption, seed).split() for seed in range(300))
    if len(caption.split()) == 1:
        assert changed(caption, 1) == caption


def test_fifteen_of_a_hundred_words_are_hidden_as_in_bert(tokens):
    ids, mask = tokens([SENTENCE] * 4000 + ["fish"])
    draws = mask_draws(len(ids), tokens, torch.Generator().manual_seed(0))
    seen, hidden = hidden_words(ids, mask, tokens, draws)
    length = int(mask[0].sum())
    assert not hidden[:4000, [0, *range(length - 1, ids.shape[1])]].any()  # start, end, padding
    assert hidden[:4000, 1 : length - 1].double().mean() == pytest.approx(0.15, abs=0.005)
    was, now = ids[hidden], seen[hidden]
    assert (now == tokens.mask_id).double().mean() == pytest.approx(0.8, abs=0.02)
    assert (now == was).double().mean() == pytest.approx(0.1, abs=0.015)
    assert torch.equal(seen[~hidden], ids[~hidden])


def test_a_mask_token_is_added_once_and_kept(tokens, tmp_path: Path):
    assert tokens.mask_id == tokens.size - 1
    tokens.save(tmp_path)
    assert CaptionTokenizer.load(tmp_path).mask_id == tokens.mask_id
    assert tokens.with_mask().size == tokens.size
    ids, _ = tokens("a <|mask|> fish")
    assert tokens.mask_id not in ids  # no caption can pretend


def test_views_that_cannot_be_are_refused(tokens, tmp_path: Path):
    scenes = Scenes.Config(train_size=8, validation_size=1, test_size=1).build("train")
    with pytest.raises(UserError, match="hide the same words"):
        batches(scenes, tokens, views=(MASKED_WORDS, MASKED_TEXT))
    with pytest.raises(UserError, match="there is no view sound of a sample"):
        batches(scenes, tokens, views=("sound",))
    plain = CaptionTokenizer.train([SENTENCE], CaptionTokenizer.Config(vocabulary=600))
    with pytest.raises(UserError, match=r"set tokens.mask to true"):
        batches(scenes, plain).batch(0)
    from safetensors.torch import save_file

    save_file({"image": torch.randn(8, 4), "text": torch.randn(8, 4)}, tmp_path / "a.safetensors")
    features = FeatureFiles([tmp_path / "a.safetensors"])
    with pytest.raises(UserError, match="the data holds features"):
        batches(features, tokens)
