"""Captions that a model writes: with and without cached keys, in any batch, against searches of everything."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from small_coca import small_coca
from small_model import random_batch, small_model
from torch import Tensor

from equipoise.data.detokenizer import Detokenizer
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.encoders import TextTransformer, ViT
from equipoise.models.captioning import METHODS, Decoding, caption_images, writes_captions
from equipoise.models.captioning.beam_search import beam_search
from equipoise.models.captioning.caption import caption_ids
from equipoise.models.captioning.next_word import Specials, chosen, kept, write_words
from equipoise.models.captioning.writer import CaptionWriter
from equipoise.models.model import Model
from equipoise.types import UserError

TEXTS = ["a red fish and a blue star", "two small medium-sized circles, one isn't big!", "the star's left of a T-shirt"]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tokens() -> CaptionTokenizer:
    return CaptionTokenizer.train(TEXTS * 3, CaptionTokenizer.Config(vocabulary=600, context=12))


def towers(name: str) -> dict:
    plain = {"image": ViT.Config(8, 16, 2, 2), "text": TextTransformer.Config(width=12, layers=1, heads=2)}
    return plain if name == "plain" else {}


def lively(model: Model) -> Model:
    """With weights so large that captions differ."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(4 if "out" in name or "positions" in name else 2)
    return model


def written(model: Model, images: Tensor, **settings: object) -> list[list[int]]:
    return list(caption_ids(model.eval(), images, Decoding(**settings)))  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["coca", "plain"])
def test_tokens_are_the_same_with_and_without_the_cache(name, method):
    model, images = lively(small_coca(**towers(name))), random_batch(5).images
    cached = written(model, images, method=method, shortest=4, seed=3)
    assert cached == written(model, images, method=method, shortest=4, seed=3, cache=False)
    assert all(3 <= len(ids) <= 7 for ids in cached)
    assert len(set(map(tuple, cached))) > 1, "captions look at the picture"


@pytest.mark.parametrize("method", METHODS)
def test_captions_do_not_depend_on_the_batch(method, tokens):
    model, images = lively(small_coca(tokens=tokens)).float(), torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8)
    settings = Decoding(method, longest=10)
    whole = list(caption_images(model.eval(), images, settings))
    assert whole == list(caption_images(model, images, settings, batch_size=2))
    assert whole[3:] == list(caption_images(model, images[3:], settings, first=3))
    assert model.caption(images, method, longest=10) == whole


class Table:
    """Logits of the next of five words by the words so far, at random: 0 the start, 4 the end."""

    def __init__(self, pictures: int, seed: int):
        self.pictures, self.seed = pictures, seed

    def of(self, picture: int, ids: tuple[int, ...]) -> Tensor:
        make = torch.Generator().manual_seed(hash((self.seed, picture, ids)) % 2**32)
        return 2 * torch.randn(5, generator=make, dtype=torch.float64)

    def __call__(self, ids: Tensor) -> Tensor:
        each = len(ids) // self.pictures
        return torch.stack([self.of(row // each, tuple(one)) for row, one in enumerate(ids.tolist())])


SPECIALS = Specials(start=0, end=4, never=(0,))


def best_of_all(table: Table, picture: int, longest: int, shortest: int, penalty: float) -> list[int]:
    """The best caption of all that there are."""
    scores: dict[tuple[int, ...], float] = {}
    for count in range(longest):
        for words in itertools.product((1, 2, 3), repeat=count):
            ids, total = (0,), 0.0
            for word in words:
                total += float(table.of(picture, ids).log_softmax(0)[word])
                ids = (*ids, word)
            if len(ids) == longest:
                scores[words] = total / longest**penalty
            elif len(ids) >= shortest:
                total += float(table.of(picture, ids).log_softmax(0)[4])
                scores[words] = total / (len(ids) + 1) ** penalty
    return list(max(scores, key=scores.__getitem__))


@pytest.mark.parametrize("penalty", [0.0, 1.0, 1.7])
@pytest.mark.parametrize("shortest", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_wide_enough_finds_the_best_caption_of_all(seed, shortest, penalty):
    table = Table(2, seed)
    settings = Decoding("beam", beams=81, longest=5, shortest=shortest, length_penalty=penalty)
    # which is given up once as many captions as beams are known: here never
    found = beam_search(table, lambda rows: None, SPECIALS, settings, 5, 2, CPU)
    assert found == [best_of_all(table, picture, 5, shortest, penalty) for picture in range(2)]


def beam_by_hand(table: Table, picture: int, settings: Decoding, longest: int) -> list[int]:
    """The rule of `beam_search.py`, with lists, one picture at a time."""
    prefixes, captions = [((0,), 0.0)], list[tuple[float, tuple[int, ...]]]()
    length = 1
    while length < longest:
        continued = []
        for ids, total in prefixes:
            scores = table.of(picture, ids).log_softmax(0).tolist()
            for word in (1, 2, 3, 4):
                if word != 4 or length >= settings.shortest:
                    continued.append((total + scores[word], (*ids, word)))
        continued = sorted(continued, reverse=True)[: 2 * settings.beams]
        for rank, (total, ids) in enumerate(continued):
            if ids[-1] == 4 and rank < settings.beams:
                captions.append((total / (length + 1) ** settings.length_penalty, ids[:-1]))
        captions = sorted(captions, reverse=True)[: settings.beams]
        full = len(captions) == settings.beams
        if full and captions[-1][0] >= continued[0][0] / (length + 1) ** settings.length_penalty:
            return list(captions[0][1][1:])
        prefixes = [(ids, total) for total, ids in continued if ids[-1] != 4][: settings.beams]
        length += 1
    captions += [(total / length**settings.length_penalty, ids) for ids, total in prefixes]
    return list(max(captions)[1][1:])


@pytest.mark.parametrize("beams", [1, 2, 3])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_beams_follow_their_rule(beams, penalty):
    for seed in range(8):
        table = Table(3, seed)
        settings = Decoding("beam", beams=beams, longest=6, length_penalty=penalty)
        found = beam_search(table, lambda rows: None, SPECIALS, settings, 6, 3, CPU)
        assert found == [beam_by_hand(table, picture, settings, 6) for picture in range(3)]


def test_greedy_takes_the_likeliest_word_that_may_follow():
    table = Table(4, 1)
    greedy = write_words(table, SPECIALS, Decoding(longest=6), 6, torch.zeros(4, 6), CPU)
    for picture, ids in enumerate(greedy):
        place = (0,)
        for word in ids:
            logits = table.of(picture, place)
            logits[[0, 4] if len(place) < 2 else [0]] = -math.inf
            assert int(logits.argmax()) == word
            place = (*place, word)


def test_the_likeliest_are_drawn_as_often_as_they_are_likely():
    logits = torch.tensor([[0.5, 2.0, -1.0, 1.0, 0.0]]).double()
    draws = torch.linspace(0, 1, 20_001)[:-1]
    cases = [
        (Decoding("top_k", top_k=2), [1, 3]),
        (Decoding("top_k", top_k=3, temperature=0.5), [1, 3, 0]),
        (Decoding("top_p", top_p=0.8), [1, 3, 0]),
        (Decoding("top_p", top_p=1.0), [0, 1, 2, 3, 4]),
        (Decoding("top_p", top_p=0.01), [1]),
    ]
    for settings, words in cases:
        found = chosen(logits.expand(20_000, -1), settings, draws)
        share = torch.bincount(found, minlength=5) / 20_000
        wanted = torch.zeros(5).double()
        wanted[words] = (logits[0, words] / settings.temperature).softmax(0)
        torch.testing.assert_close(share.double(), wanted, rtol=0, atol=2e-4)


def test_a_draw_at_the_edge_is_one_of_the_kept():
    logits = torch.full((1, 50), 0.1)
    last = chosen(logits, Decoding("top_k", top_k=3), torch.tensor([1.0]))
    ranked = logits.sort(1, descending=True).indices[0, :3]
    assert int(last) in ranked.tolist()
    assert kept(logits.sort(1, descending=True).values, Decoding("top_p", top_p=1e-9)).isfinite().sum() == 1


@pytest.mark.parametrize("method", METHODS)
def test_start_and_padding_are_never_written_and_no_caption_is_too_short_or_long(method):
    model, images = small_coca(), random_batch(8).images
    with torch.no_grad():
        model.heads["caption"].words[[0, 38, 39]] *= 20  # what may not be written would be, often
    for ids in written(model, images, method=method, longest=6, shortest=3, seed=5):
        assert not {0, 38, 39} & set(ids)
        assert 2 <= len(ids) <= 5


def test_numbers_that_are_not_finite_are_told():
    model = small_coca()
    with torch.no_grad():
        model.heads["caption"].words[3] = torch.nan
    with pytest.raises(UserError, match="NaN"):
        written(model, random_batch(2).images)


def test_a_model_without_a_decoder_or_with_prompts_is_told_why(tokens):
    for model in (small_model(), small_coca(heads={})):
        assert not writes_captions(model)
        with pytest.raises(UserError, match="no decoder"):
            model.caption(torch.zeros(1, 3, 16, 16, dtype=torch.uint8))


@pytest.mark.parametrize("wrong", [{"method": "best"}, {"longest": 2}, {"shortest": 30}, {"beams": 0}, {"top_k": 0},
                                   {"top_p": 0.0}, {"top_p": 1.5}, {"temperature": 0.0}, {"length_penalty": -1.0},
                                   {"seed": -1}])  # fmt: skip
def test_settings_that_cannot_be_meant_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        Decoding(**wrong)


def test_an_unknown_setting_is_named():
    with pytest.raises(UserError, match="beam_size"):
        small_coca().caption(torch.zeros(1, 3, 16, 16, dtype=torch.uint8), beam_size=3)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_texts_come_back_from_their_tokens(kind):
    made = CaptionTokenizer.train(TEXTS * 3, CaptionTokenizer.Config(kind=kind, vocabulary=600, context=40))
    text_of = Detokenizer(made)
    for text in (*TEXTS, "a café, naïve?", "a"):
        ids, mask = made(text)
        if kind == "bpe":
            assert text_of(ids[0].tolist()) == text.lower()
        else:
            assert text_of(ids[0][mask[0]].tolist()).split()[0] == made.words([text])[0][1]


def test_bytes_that_make_no_letter_do_not_stop_a_caption(tokens):
    pieces = [number for number in range(200, 256)]
    assert isinstance(Detokenizer(tokens)(pieces), str)
    assert Detokenizer(tokens)([]) == ""


def test_a_cache_serves_captions_of_several_beams_of_one_picture():
    model, images = small_coca().eval(), random_batch(2).images
    cached, plain = (CaptionWriter(model, images, None, 8, cache) for cache in (True, False))
    ids = torch.full((6, 1), 38)
    for _ in range(4):
        with torch.no_grad():
            found, expected = cached.next(ids), plain.next(ids)
        torch.testing.assert_close(found, expected)
        rows = torch.tensor([2, 0, 1, 4, 4, 3])
        ids = torch.cat([ids, torch.randint(1, 38, (6, 1))], 1)[rows]
        cached.reorder(rows)
