"""The smallest CLIP that trains, for benches that watch a run rather than what it learns."""

from __future__ import annotations

NANO = """
extends = "demo"
tokens.vocabulary = 530
tokens.context = 24
preprocess.size = 16
image.patch = 8
image.width = 8
image.heads = 2
image.layers = 1
text.width = 8
text.heads = 2
text.layers = 1
space.dim = 8
"""
