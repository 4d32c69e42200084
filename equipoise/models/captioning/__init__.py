"""Captions that a model writes, word by word: what the next word may be, how it is chosen, and texts of the words."""

from __future__ import annotations

from equipoise.models.captioning.caption import caption_ids, caption_images, writes_captions
from equipoise.models.captioning.settings import METHODS, Decoding

__all__ = ["METHODS", "Decoding", "caption_ids", "caption_images", "writes_captions"]
