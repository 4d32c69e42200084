"""Points on disk, each file named by the content that made it: the model's digest and that of the pictures or texts.

What was encoded once is never encoded again, for any set that has the same pictures; a model or picture that changed
has another name. Files that are no longer needed may be deleted at any time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from equipoise.data.files.image_source import Pictures
from equipoise.evaluation.zeroshot import SpaceLike
from equipoise.io.atomic import replacing
from equipoise.training.distributed.ranks import Ranks
from equipoise.workflows.benchmark.embedder import Embedder

POINTS = "points"


@dataclass(frozen=True)
class CachedFeatures:
    """A model whose points are looked up first."""

    embedder: Embedder
    model: str  # its digest
    folder: Path
    ranks: Ranks

    def images(self, source: Pictures) -> Tensor:
        return self._points(pictures_digest(source), len(source), lambda: self.embedder.images(source))

    def texts(self, texts: Sequence[str]) -> Tensor:
        return self._points(texts_digest(texts), len(texts), lambda: self.embedder.texts(texts))

    def _points(self, content: str, count: int, encode: Callable[[], Tensor]) -> Tensor:
        file = self.folder / f"{digest(('points', self.model, content))}.safetensors"
        known = _read(file, count)
        if self.ranks.total(int(known is not None)) == self.ranks.world and known is not None:
            return known
        points = encode().contiguous()  # by all ranks, or by none
        if self.ranks.is_main:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(file) as temporary:
                save_file({POINTS: points}, temporary)
        self.ranks.barrier()
        return points


def _read(file: Path, count: int) -> Tensor | None:
    """Stored points; None where they are missing, damaged or fewer."""
    try:
        points = load_file(file).get(POINTS) if file.is_file() else None
    except (SafetensorError, OSError):
        return None
    return points if points is not None and points.dim() == 2 and len(points) == count else None


def pictures_digest(source: Pictures) -> str:
    return digest(source.picture_digest(index) for index in range(len(source)))


def texts_digest(texts: Sequence[str]) -> str:
    return digest(texts)


def digest(parts: Iterable[str | bytes]) -> str:
    """A digest of several things, whatever is in them: each is preceded by its length."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(content).to_bytes(8, "little") + content)
    return found.hexdigest()


def paired_similarity(space: SpaceLike, first: Tensor, second: Tensor, chunk: int = 64) -> Tensor:
    """Similarity of each row with its own partner [N]; no more than `chunk` x `chunk` are compared at once."""
    pairs = zip(first.split(chunk), second.split(chunk), strict=True)
    return torch.cat([space.similarity(a, b).diagonal() for a, b in pairs])
