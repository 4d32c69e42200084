"""Sounds with captions, made up: tones as spectrograms, for models of audio and text."""

from __future__ import annotations

from equipoise.data.tones.source import Tones
from equipoise.data.tones.spectrogram import log_mel

__all__ = ["Tones", "log_mel"]
