"""How long captions are, in CLIP's tokens with start and end among them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

import torch
from clip_sizes import CONTEXT
from open_clip_peer import make_torchvision_importable

# How many of Flickr8k's training captions have 4, 5, 6, ... of CLIP's tokens, start and end among them
FLICKR8K = (
    8, 24, 132, 366, 855, 1795, 2413, 2666, 3129, 3095, 3090, 2741, 2432, 1938, 1493, 1061, 786, 611, 420, 293, 192,
    144, 89, 78, 52, 33, 25, 8, 6, 7, 6, 5, 2, 2, 1, 1, 0, 0, 1,
)  # fmt: skip
FLICKR8K_MEAN = sum(count * length for length, count in enumerate(FLICKR8K, 4)) / sum(FLICKR8K)


def drawn_lengths(count: int, mean: float) -> torch.Tensor:
    weights = torch.tensor(FLICKR8K, dtype=torch.float64)
    drawn = 4 + torch.multinomial(weights, count, True, generator=torch.Generator().manual_seed(0))
    return (drawn + round(mean - FLICKR8K_MEAN)).clamp(3, CONTEXT)


def read_lengths(folder: Path, count: int) -> torch.Tensor:
    make_torchvision_importable()
    from open_clip.tokenizer import SimpleTokenizer

    encode = SimpleTokenizer().encode
    found = [min(len(encode(caption)) + 2, CONTEXT) for caption in _captions(folder)]
    return torch.tensor(found)[torch.randperm(len(found), generator=torch.Generator().manual_seed(0))][:count]


def _captions(folder: Path) -> Iterable[str]:
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as shard:
            for member in shard:
                if member.name.endswith(".txt"):
                    yield from shard.extractfile(member).read().decode().splitlines()  # type: ignore[union-attr]
