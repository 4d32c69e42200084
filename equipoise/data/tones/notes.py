"""Tones: what a note is, and how it sounds.

    x(t) = g(t) Σ_k a_k sin(2π k f t + φ)

f from the range of the note's pitch, φ anywhere; a_k by its timbre: pure 1 for k = 1 alone, hollow 1/k for odd k,
bright 1/k for all k, below half the rate; g by its rhythm: 1 (held), or (1 - cos 2πbt)²/4 with b beats a second. The
ends fade over 10 ms, so that there is no click.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

RATE = 8192  # samples a second
PITCHES = {"low": (120.0, 200.0), "medium": (300.0, 500.0), "high": (750.0, 1250.0)}  # in Hz
TIMBRES = ("pure", "hollow", "bright")
RHYTHMS = {"held": 0.0, "pulsing slowly": 4.0, "pulsing fast": 12.0}  # beats a second
FADE = 0.01  # seconds


@dataclass(frozen=True)
class Note:
    """What a caption says of a tone."""

    pitch: str
    timbre: str
    rhythm: str


@dataclass(frozen=True)
class Sounding:
    """A note as it is played once."""

    note: Note
    frequency: float
    phase: float


def drawn_note(rng: Random) -> Note:
    return Note(rng.choice(tuple(PITCHES)), rng.choice(TIMBRES), rng.choice(tuple(RHYTHMS)))


def played(note: Note, rng: Random) -> Sounding:
    """The note at one of the frequencies of its pitch, each octave as likely as another."""
    low, high = PITCHES[note.pitch]
    return Sounding(note, low * (high / low) ** rng.random(), 2 * math.pi * rng.random())


def overtones(timbre: str, frequency: float) -> list[tuple[int, float]]:
    """(k, a_k) of all that lie below half the rate."""
    if timbre == "pure":
        return [(1, 1.0)]
    step = 2 if timbre == "hollow" else 1
    return [(k, 1 / k) for k in range(1, math.ceil(RATE / 2 / frequency), step)]


def wave(sounding: Sounding, samples: int) -> Tensor:
    """Its samples, float32 [samples], between about -2 and 2."""
    t = torch.arange(samples, dtype=torch.float64) / RATE
    made = torch.zeros(samples, dtype=torch.float64)
    for k, loudness in overtones(sounding.note.timbre, sounding.frequency):
        made += loudness * torch.sin(2 * math.pi * k * sounding.frequency * t + sounding.phase)
    beats = RHYTHMS[sounding.note.rhythm]
    gate = (1 - torch.cos(2 * math.pi * beats * t)).square() / 4 if beats else torch.ones_like(t)
    ends = (torch.minimum(t, t.flip(0)) / FADE).clamp(max=1)
    return (made * gate * ends).float()
