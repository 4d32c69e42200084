"""The source `tones`: spectrograms of one or two notes with captions, each a pure function of (seed, split, index).

A sound of a second holds one note or two after each other, louder or softer, under white noise. Captions name pitch,
timbre and rhythm of each and their order, so that it is known which captions are true of which sounds. To a model these
are pictures and texts: whatever trains, judges and searches those does so with sounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from equipoise.data.image_cache import ImageCache
from equipoise.data.rng import generator, python_random
from equipoise.data.source import Pair
from equipoise.data.splits import require_split
from equipoise.data.tones.captions import describe, parse
from equipoise.data.tones.notes import PITCHES, RATE, RHYTHMS, TIMBRES, Note, drawn_note, played, wave
from equipoise.data.tones.spectrogram import log_mel
from equipoise.settings.bounds import SEED, bounded, within

CACHE_LIMIT = 1 << 30  # bytes of pictures kept for one size


class Tones:
    """One split: a judged and labelled source; sounds of one note have the label of their pitch and timbre."""

    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("gong2021ast", "wu2023clap")

        train_size: int = bounded(4000, 2, 10**7)  # sounds to train on
        validation_size: int = bounded(300, 2, 10**7)  # sounds to watch the training by
        test_size: int = bounded(300, 2, 10**7)  # sounds for the numbers of the report
        seed: int = within(SEED, 0)  # of all that is drawn: another seed, other sounds
        captions: int = bounded(3, 1, 100)  # per sound
        most_notes: int = bounded(2, 1, 2)  # in one sound, after each other
        noise: float = bounded(0.01, 0.0, 1.0)  # deviation of white noise; notes have amplitudes of 0.15 to 0.6

        def build(self, split: str) -> Tones:
            return Tones(self, split)

    def __init__(self, config: Config, split: str) -> None:
        require_split(split)
        self.config, self.split, self._size = config, split, getattr(config, f"{split}_size")
        self.class_names = tuple(f"{pitch} {timbre}" for pitch in PITCHES for timbre in TIMBRES)
        self.templates = tuple(f"a {{}} tone {rhythm}" for rhythm in RHYTHMS)
        self._pictures: dict[int, ImageCache] = {}

    def __len__(self) -> int:
        return self._size

    def notes(self, index: int) -> tuple[Note, ...]:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.split} has {len(self)} sounds; there is no number {index}")
        rng = self._random(index, "notes")
        return tuple(drawn_note(rng) for _ in range(rng.randint(1, self.config.most_notes)))

    def pair(self, index: int) -> Pair:
        notes = self.notes(index)
        label = f"{notes[0].pitch} {notes[0].timbre}" if len(notes) == 1 else None
        captions = describe(notes, self.config.captions, self._random(index, "captions"))
        return Pair(f"{self.split}-{index:06d}", captions, label, truth={"notes": [asdict(note) for note in notes]})

    def wave(self, index: int) -> Tensor:
        """The sound, float32 [RATE]: a second."""
        notes, rng = self.notes(index), self._random(index, "played")
        each = [wave(played(note, rng), RATE // len(notes)) for note in notes]
        noise = torch.randn(RATE, generator=generator(self.config.seed, f"tones {self.split}", index))
        return (0.15 + 0.45 * rng.random()) * torch.cat(each) + self.config.noise * noise

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        """The spectrograms as pictures, uint8 [N, 3, size, size]."""

        def draw(numbers: Sequence[int]) -> Tensor:
            waves = [self.wave(number) for number in numbers]
            return log_mel(torch.stack(waves) if waves else torch.empty(0, RATE), RATE, size)

        if ImageCache.bytes_needed(len(self), size) > CACHE_LIMIT:
            return draw(indices).to(device)
        cache = self._pictures.setdefault(int(size), ImageCache(len(self), int(size)))
        return cache.images(indices, draw).to(device)

    def relevance(self, indices: Sequence[int], captions: Sequence[str]) -> np.ndarray:
        """Bool [indices, captions]: whether a caption names just the notes of a sound, in their order."""
        sounds = [self.notes(index) for index in indices]
        numbers = {notes: number for number, notes in enumerate(dict.fromkeys(sounds))}
        heard = np.array([numbers[notes] for notes in sounds], dtype=np.int64)
        told = np.array([numbers.get(parse(caption), -1) for caption in captions], dtype=np.int64)
        truth: np.ndarray = heard[:, None] == told[None]
        return truth

    def _random(self, index: int, purpose: str) -> Random:
        return python_random(self.config.seed, self.split, index, purpose)
