"""Further views of a sample, made where an objective asks for them: pure functions of the seed and the position.

    image_view2   another crop of the picture
    image_partner the image at that place of the reversed batch, cropped and augmented as at its own place
    text_view2    the caption with two words exchanged, or with some left out (Wei & Zou 2019, "EDA", §2)
    other_caption the same place, with another caption of the same record, where it has one
    masked_words  some words of the caption hidden, to be guessed (Devlin et al. 2019, BERT, §3.1)
    masked_text   the same as a second text: the caption stays as it is
    class_prompts a prompt for every class: one view of the whole batch (`class_prompts.py`)

All but the last travel in `Batch.side`: image_view2, image_partner [N, 3, H, W]; text_view2, text_view2_mask [N, L];
hidden [N, L], True where a word is to be guessed, and answers [N, L], the words as they were. `masked_words` changes
the batch's tokens: the caption whose words are hidden is the caption, as in DeCLIP. `masked_text` [N, L] leaves them as
they are, which are the answers then, as in ALBEF. A partner may belong to another process: then both decode it.

EDA also replaces words by synonyms and inserts some. That takes a thesaurus, which nothing here downloads, so each
caption has one of the other two changes: an exchange of two words, or every word left out with probability 0.1.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from equipoise.data.rng import generator
from equipoise.data.source import (
    ANSWERS,
    CLASS_PROMPTS,
    HIDDEN,
    IMAGE_PARTNER,
    IMAGE_VIEW2,
    MASKED_TEXT,
    MASKED_WORDS,
    OTHER_CAPTION,
    TEXT_VIEW2,
    TEXT_VIEW2_MASK,
    Pair,
    Source,
    is_labelled,
    makes_batches,
)
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch, UserError

VIEWS = (IMAGE_VIEW2, IMAGE_PARTNER, TEXT_VIEW2, OTHER_CAPTION, MASKED_WORDS, MASKED_TEXT, CLASS_PROMPTS)
LEFT_OUT = 0.1  # of the words, in a caption that is shortened
TO_GUESS = 0.15  # of the words
MASK, OTHER = 0.8, 0.1  # of the hidden ones become the mask token, another word; the rest stay


@dataclass(frozen=True)
class WordChances:
    """All random numbers behind the views of a batch's captions; one row per caption."""

    changes: list[int]  # one number per caption; none where no second captions are wanted
    hiding: Tensor | None  # [N, 3, context] uniform numbers, where words are to be hidden

    @classmethod
    def of(cls, views: Sequence[str], size: int, tokens: CaptionTokenizer, seed: int, position: int) -> WordChances:
        numbers = torch.randint(2**62, (size,), generator=generator(seed, TEXT_VIEW2, position)).tolist()
        return cls(
            numbers if {TEXT_VIEW2, OTHER_CAPTION} & set(views) else [],
            mask_draws(size, tokens, generator(seed, MASKED_WORDS, position)) if hides_words(views) else None,
        )

    def part(self, rows: slice) -> WordChances:
        return WordChances(self.changes[rows], None if self.hiding is None else self.hiding[rows])


def hides_words(views: Sequence[str]) -> bool:
    """Whether a view hides words, for which the tokenizer needs a mask token."""
    return bool({MASKED_WORDS, MASKED_TEXT} & set(views))


def possible_views(views: Sequence[str], source: Source) -> tuple[str, ...]:
    """The views; raises UserError for one that this source's samples cannot have."""
    if unknown := set(views) - set(VIEWS):
        raise UserError(f"there is no view {', '.join(sorted(unknown))} of a sample; the views are {', '.join(VIEWS)}")
    if {MASKED_WORDS, MASKED_TEXT} <= set(views):
        raise UserError(f"{MASKED_WORDS} and {MASKED_TEXT} hide the same words of a caption; ask for one of them")
    if views and makes_batches(source):
        raise UserError(
            f"the objective asks for further views of pictures and captions ({', '.join(views)}), but the data holds "
            "features, of which there is one view each; choose the objective clip, or data that has pictures"
        )
    if CLASS_PROMPTS in views and not is_labelled(source):
        raise UserError(
            "the objective compares images with the names of classes, which the data does not have; set data.name to "
            "few_shot, folders or class_shards"
        )
    return tuple(views)


def with_changed(
    batch: Batch, captions: Sequence[str], keys: Sequence[str], tokens: CaptionTokenizer, seeds: Sequence[int]
) -> Batch:
    """Adds a changed caption to each sample."""
    return _with_second(batch, captions, [changed(*each) for each in zip(captions, seeds, strict=True)], keys, tokens)


def with_other(
    batch: Batch, captions: Sequence[str], pairs: Sequence[Pair], tokens: CaptionTokenizer, seeds: Sequence[int]
) -> Batch:
    """Adds another caption of its record to each sample."""
    others = [other_caption(*each) for each in zip(captions, pairs, seeds, strict=True)]
    return _with_second(batch, captions, others, [pair.key for pair in pairs], tokens)


def _with_second(
    batch: Batch, captions: Sequence[str], others: Sequence[str], keys: Sequence[str], tokens: CaptionTokenizer
) -> Batch:
    before = tokens.truncated
    empty = tokens.leaves_nothing(others)  # where the words that were left out were all that can be read
    others = [caption if lost else other for caption, other, lost in zip(captions, others, empty, strict=True)]
    ids, mask = tokens(others, keys)
    tokens.truncated = before  # captions count once
    return replace(batch, side={**batch.side, TEXT_VIEW2: ids, TEXT_VIEW2_MASK: mask})


def with_hidden(batch: Batch, tokens: CaptionTokenizer, draws: Tensor, beside: bool = False) -> Batch:
    """Hides some words of the captions or, `beside` them, of a second text that is the same otherwise."""
    seen, hidden = hidden_words(batch.tokens, batch.mask, tokens, draws)
    if beside:
        return replace(batch, side={**batch.side, HIDDEN: hidden, MASKED_TEXT: seen})
    return replace(batch, tokens=seen, side={**batch.side, HIDDEN: hidden, ANSWERS: batch.tokens})


def changed(caption: str, seed: int) -> str:
    """The caption with two words exchanged or some left out; one of a single word stays as it is."""
    words, chance = caption.split(), random.Random(seed)
    if len(words) < 2:
        return caption
    if chance.random() < 0.5:
        first, second = chance.sample(range(len(words)), 2)
        words[first], words[second] = words[second], words[first]
        return " ".join(words)
    kept = [word for word in words if chance.random() >= LEFT_OUT]
    return " ".join(kept or [chance.choice(words)])


def other_caption(caption: str, pair: Pair, seed: int) -> str:
    """One of the record's captions beside this one; the same where there is no other."""
    others = list(pair.captions)
    others.remove(caption)
    return random.Random(seed).choice(others) if others else caption


def mask_draws(count: int, tokens: CaptionTokenizer, generator: Generator) -> Tensor:
    """[count, 3, context] uniform numbers, all that decides what is hidden; one row per caption."""
    return torch.rand(count, 3, tokens.context, generator=generator, dtype=torch.double)


def hidden_words(ids: Tensor, mask: Tensor, tokens: CaptionTokenizer, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Ids [N, L] with some words replaced, and which are to be guessed, bool [N, L]."""
    if tokens.mask_id is None:
        raise UserError("the tokenizer has no mask token to hide words with; set tokens.mask to true")
    which, how, other = draws[..., : ids.shape[1]].to(ids.device).unbind(1)
    inside = mask & torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)  # the end is no word
    inside[:, 0] = False  # nor is the start
    hidden = inside & (which < TO_GUESS)
    seen = torch.where(how < MASK, tokens.mask_id, torch.where(how < MASK + OTHER, (other * tokens.size).long(), ids))
    return torch.where(hidden, seen, ids), hidden
