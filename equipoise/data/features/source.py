"""The source `features`: pairs whose images, and texts where the files have them, are features already.

Files are read once when the source is built (safetensors are only mapped into memory) and any row is there by number.
A file without text features but with captions feeds a text tower beside frozen image features.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from equipoise.data.features.arrays import READERS
from equipoise.data.features.concat import ConcatRows
from equipoise.data.features.feature_file import FeatureFile, Rows, read_part
from equipoise.data.side_data import fingerprints, names
from equipoise.data.source import HAS, IMAGE_MASK, Pair
from equipoise.data.splits import require_split
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.data.urls import URL, fetch_arrays
from equipoise.settings.trust import output_folder
from equipoise.types import Batch, UserError

IMAGE_VECTORS = "image_vectors"  # side data that compares images


class FeatureFiles:
    """One split: features by number, one batch at a time."""

    @dataclass(frozen=True)
    class Config:
        train: str | tuple[str, ...] = ""  # files, or folders of them, as `equipoise embed` writes; URLs too
        validation: str | tuple[str, ...] = ""  # likewise
        test: str | tuple[str, ...] = ""  # without it, the validation files are used again
        image: str = "image"  # the arrays' names
        text: str = "text"  # likewise
        guides: bool = False  # let the features themselves guide targets: side data image_vectors and text_vectors
        guide: str = ""  # an array that is image_vectors instead: what a detector found, say; rows of 0 guide nothing
        cache: str = output_folder()  # a folder for copies of what URLs name

        def build(self, split: str) -> FeatureFiles:
            require_split(split)
            given = getattr(self, split)
            if split == "test" and not given and self.validation:
                warnings.warn("data.test is not given: the validation files are the test files too", stacklevel=2)
                given = self.validation
            if not given:
                raise UserError(f"data.{split} is empty; give it the file or folder of the {split} features")
            paths = [given] if isinstance(given, str) else given
            files = [file for path in paths for file in _files(path, self.cache)]
            guide = self.guide if split == "train" else ""  # nothing else is trained on
            return FeatureFiles(files, self.image, self.text, self.guides, guide)

    def __init__(
        self, files: Sequence[Path], image: str = "image", text: str = "text", guides: bool = False, guide: str = ""
    ):
        self._guides = guides
        self._parts = [read_part(file, image, text, guide) for file in files]
        given = [part.guide for part in self._parts if part.guide is not None]
        self._guide = _joined(self._parts, given, guide) if given else None
        self._images = _joined(self._parts, [part.images for part in self._parts], image)
        texts = [part.texts for part in self._parts if part.texts is not None]
        if texts and len(texts) < len(self._parts):
            lacking = next(part.path for part in self._parts if part.texts is None)
            raise UserError(f"{lacking}: there is no array {text!r}, which the other files have; add it")
        self._texts = _joined(self._parts, texts, text) if texts else None
        if self._texts is None and any(part.captions is None for part in self._parts):
            raise UserError(f"{self._parts[0].path}: there is neither an array {text!r} nor 'captions'; add one")
        self._index()

    def _index(self) -> None:
        """Where in the list of all texts those of each image are."""
        totals = torch.tensor([0, *(int(part.text_counts.sum()) for part in self._parts)]).cumsum(0).tolist()
        orders = [part.text_order + before for part, before in zip(self._parts, totals, strict=False)]
        self._text_rows = torch.cat(orders)
        self._text_counts = torch.cat([part.text_counts for part in self._parts])
        self._text_starts = self._text_counts.cumsum(0) - self._text_counts
        self._keys = [key for part in self._parts for key in part.keys]
        self._labels: list[str | None] = []
        for part in self._parts:
            self._labels += part.labels or [None] * len(part)
        captions = [part.captions for part in self._parts if part.captions is not None]
        self._captions = [text for texts in captions for text in texts] if len(captions) == len(self._parts) else None

    def __len__(self) -> int:
        return len(self._images)

    @property
    def has_keys(self) -> bool:
        """Whether all files say the keys of their records."""
        return all(part.has_keys for part in self._parts)

    @property
    def image_width(self) -> int:
        return self._images.width

    @property
    def text_width(self) -> int | None:
        return None if self._texts is None else self._texts.width

    def pair(self, index: int) -> Pair:
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} pairs of features, but no number {index}")
        rows = self._rows_of(index)
        captions = () if self._captions is None else tuple(self._captions[row] for row in rows)
        return Pair(self._keys[index], captions, self._labels[index])

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> NoReturn:
        raise UserError(f"{self._parts[0].path} holds features, which cannot be shown or encoded as pictures")

    def image_features(self, indices: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        return self._images.take(indices)

    def text_features(self, indices: Sequence[int], per_image: int = 0) -> tuple[Tensor, Tensor | None, Tensor]:
        assert self._texts is not None, "ask text_width first"
        chosen = torch.as_tensor(indices)
        kept = self._text_counts[chosen]
        kept = kept.clamp(max=per_image) if per_image else kept
        owners = torch.arange(len(chosen)).repeat_interleave(kept)
        places = torch.arange(len(owners)) - (kept.cumsum(0) - kept)[owners]
        return (*self._texts.take(self._text_rows[self._text_starts[chosen[owners]] + places]), owners)

    def batch(self, indices: Sequence[int], draws: Sequence[float], tokens: CaptionTokenizer) -> Batch:
        images, image_mask = self.image_features(indices)
        chosen = torch.as_tensor(indices)
        places = (torch.as_tensor(draws, dtype=torch.float64) * self._text_counts[chosen]).long()
        rows = self._text_rows[self._text_starts[chosen] + places]
        if self._texts is not None:
            texts, mask = self._texts.take(rows)
            mask = torch.ones(len(rows), 1, dtype=torch.bool) if mask is None else mask
        else:
            assert self._captions is not None
            captions = [self._captions[row] for row in rows.tolist()]
            texts, mask = tokens(captions, [self._keys[index] for index in indices])
        side = names([self._keys[index] for index in indices], [self._labels[index] for index in indices])
        side |= {} if image_mask is None else {IMAGE_MASK: image_mask}
        if self._captions is not None:
            side["caption"] = fingerprints(self._captions[row] for row in rows.tolist())
        if self._guides:
            side |= self._vectors(images, texts)
        if self._guide is not None:
            vectors, _ = self._guide.take(indices)
            side |= {IMAGE_VECTORS: vectors, HAS + IMAGE_VECTORS: vectors.any(dim=1)}
        return Batch(images, texts, mask, chosen, side)

    def _vectors(self, images: Tensor, texts: Tensor) -> dict[str, Tensor]:
        if images.ndim != 2 or self._texts is None or texts.ndim != 2:
            raise UserError(f"{self._parts[0].path}: only files of one vector per image and text can guide targets")
        return {IMAGE_VECTORS: images, "text_vectors": texts}

    def _rows_of(self, index: int) -> list[int]:
        start = int(self._text_starts[index])
        return self._text_rows[start : start + int(self._text_counts[index])].tolist()


def _files(name: str, cache: str) -> list[Path]:
    """A file, or all files of features in a folder by name; copies of them where it is a URL."""
    if URL.match(name):
        return fetch_arrays(name, cache, tuple(READERS))
    path = Path(name)
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in READERS and not file.name.startswith("."))
    if not files:
        raise UserError(f"{path}: this folder holds no {', '.join(READERS)} file; give one that does")
    return files


def _joined(parts: Sequence[FeatureFile], blocks: Sequence[Rows], name: str) -> ConcatRows:
    for part, block in zip(parts, blocks, strict=True):
        shape, first = block.values.shape, blocks[0].values.shape
        if len(shape) != len(first) or shape[-1] != first[-1]:
            raise UserError(
                f"{part.path}: array {name!r} has the shape {list(shape)}, but that of {parts[0].path} is "
                f"{list(first)}; files of one split must agree in width and kind"
            )
    return ConcatRows(blocks)
