from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from equipoise.config import Loaded
from equipoise.data.augment import Augment
from equipoise.data.batches import Batches
from equipoise.data.files import Folders
from equipoise.data.scenes import Scenes
from equipoise.data.source import Pair
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch, UserError


@dataclass
class Notes:
    """A source of grey squares with the captions given."""

    captions: Sequence[tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.captions)

    def pair(self, index: int) -> Pair:
        return Pair(f"note-{index}", self.captions[index])

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return torch.full((len(indices), 3, size, size), 128, dtype=torch.uint8, device=device)


def assert_same(one: Batch, other: Batch) -> None:
    for name in ("images", "tokens", "mask", "index"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


def of_notes(tiny: Loaded, tokens: CaptionTokenizer, *captions: tuple[str, ...]) -> Batches:
    return Batches(Notes(captions), tokens, tiny.run.preprocess, batch_size=len(captions), seed=0)


def test_a_batch_holds_images_and_one_caption_of_each(tiny: Loaded, scenes: Scenes, tokens: CaptionTokenizer) -> None:
    uncropped = replace(tiny.run.preprocess, crop_scale=(1.0, 1.0), crop_ratio=(1.0, 1.0))
    batch = Batches(scenes, tokens, uncropped, batch_size=16, seed=0).batch(1)
    indices = batch.index.tolist()
    assert len(batch) == len(set(indices)) == 16
    torch.testing.assert_close(batch.images, uncropped.for_evaluation(scenes.images(indices, 32)))
    for row, mask, index in zip(batch.tokens, batch.mask, indices, strict=True):
        possible = [ids[real].tolist() for ids, real in (tokens(caption) for caption in scenes.pair(index).captions)]
        assert row[mask].tolist() in possible


def test_a_batch_depends_on_seed_and_position_alone(
    batches: Batches, scenes: Scenes, tokens: CaptionTokenizer, tiny: Loaded
) -> None:
    def fresh(seed: int) -> Batches:
        return Batches(Scenes(tiny.run.data, "train"), tokens, tiny.run.preprocess, batch_size=16, seed=seed)

    for position in (5, 0, 3):
        torch.rand(7)  # nobody else's dice matter
        assert_same(batches.batch(position), fresh(0).batch(position))
    assert not torch.equal(batches.batch(0).index, fresh(1).batch(0).index)


def test_a_pair_is_cropped_and_told_differently_at_every_visit(tiny: Loaded, tokens: CaptionTokenizer) -> None:
    single = Scenes.Config(train_size=1).build("train")
    visits = [Batches(single, tokens, tiny.run.preprocess, batch_size=1, seed=0).batch(visit) for visit in range(8)]
    assert len({tuple(visit.images.flatten().tolist()) for visit in visits}) > 4
    assert len({tuple(visit.tokens[visit.mask].tolist()) for visit in visits}) > 2


def test_the_prefetching_iterator_gives_the_same_batches(batches: Batches) -> None:
    for position, batch in enumerate(islice(batches, 6)):
        assert_same(batch, batches.batch(position))
    for position, batch in enumerate(islice(batches.starting_at(3), 3), start=3):
        assert_same(batch, batches.batch(position))


def test_a_record_without_words_is_named(tiny: Loaded, tokens: CaptionTokenizer) -> None:
    with pytest.raises(UserError, match="record note-1 has no caption"):
        of_notes(tiny, tokens, ("a red fish",), ()).batch(0)
    with pytest.raises(UserError, match="The caption of note-1 is empty"):
        next(iter(of_notes(tiny, tokens, ("a red fish",), (" \n",))))


def test_a_caption_longer_than_the_context_is_cut_warned_of_and_counted(tiny: Loaded, tokens: CaptionTokenizer) -> None:
    short = CaptionTokenizer(tokens._tokenizer, context=6)
    notes = of_notes(tiny, short, ("a red fish",), ("a fish and " * 20,))
    with pytest.warns(UserWarning, match=r"The caption of note-1 .* but the context is 6"):
        batch = notes.batch(0)
    assert batch.tokens.shape[1] == 6
    long = batch.index.tolist().index(1)
    assert batch.tokens[long, -1] == short.end
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        notes.batch(1)
    assert short.truncated == 2


def test_the_first_batches_may_be_as_in_evaluation(tiny: Loaded, scenes: Scenes, tokens: CaptionTokenizer) -> None:
    """Where readouts are probed, pictures are neither cropped at random nor changed; the order stays."""
    changed = {"seed": 0, "batch_size": 16, "augment": Augment(flip=0.5, jitter=1.0)}
    usual = Batches(scenes, tokens, tiny.run.preprocess, **changed)
    plain = Batches(scenes, tokens, tiny.run.preprocess, **changed, plain=2)
    assert_same(plain.batch(2), usual.batch(2))
    for position in (0, 1):
        batch, other = plain.batch(position), usual.batch(position)
        expected = tiny.run.preprocess.for_evaluation(scenes.images(batch.index.tolist(), 32))
        torch.testing.assert_close(batch.images, expected)
        assert torch.equal(batch.index, other.index)
        assert torch.equal(batch.tokens, other.tokens)
        assert not torch.allclose(other.images, expected, atol=0.1)


def test_pictures_of_files_may_be_as_in_evaluation(tmp_path: Path, tiny: Loaded, tokens: CaptionTokenizer) -> None:
    for name in ("red", "blue"):
        (tmp_path / name).mkdir()
        for number in range(4):
            Image.effect_mandelbrot((64 + 32 * number, 64), (-2, -1, 1, 1), 9 + number).convert("RGB").save(
                tmp_path / name / f"{number}.png"
            )
    source = Folders(train=str(tmp_path), validation=str(tmp_path)).build("train")
    batch = Batches(source, tokens, tiny.run.preprocess, batch_size=8, seed=0, plain=1).batch(0)
    size = tiny.run.preprocess.size
    expected = tiny.run.preprocess.for_evaluation(source.images(batch.index.tolist(), size))
    inside = (..., slice(2, -2))  # at its sides Pillow looks beyond the box, and a training crop does not
    torch.testing.assert_close(batch.images[inside], expected[inside], rtol=0, atol=0.02)
