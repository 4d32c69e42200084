"""One file of features, understood and checked. N images, M texts, w wide, P or L tokens:

    image  [N, w] vectors, or [N, P, w] tokens
    text   [N, w] one per image · [N, k, w] k per image · [M, w] with image_of_text [M]
           and with one axis more, [..., L, w], where text_mask or text_lengths say that these are tokens

`NAME_mask` (bool, one value a token) or `NAME_lengths` (one number an image or text) tell real tokens from padding;
an image's may be left out where all are real. Any further array [N, w] may guide targets. `keys` [N], `captions` (as
the texts, without w) and `label` [N] are free to be there. A number that is not finite raises UserError with its file,
array and row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from equipoise.data.features.arrays import Arrays, read_arrays
from equipoise.types import UserError

IMAGE_OF_TEXT, KEYS, CAPTIONS, LABEL = "image_of_text", "keys", "captions", "label"
CHECKED_AT_ONCE = 1 << 24  # numbers


@dataclass(frozen=True)
class Rows:
    """Vectors [n, w], or tokens [n, L, w] with their mask [n, L]."""

    values: Tensor
    mask: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class FeatureFile:
    path: Path
    images: Rows
    texts: Rows | None
    text_order: Tensor  # [M] the texts' rows, those of one image together
    text_counts: Tensor  # [N] how many belong to each image
    captions: list[str] | None  # [M], in the order of the texts' rows
    keys: list[str]
    labels: list[str] | None
    guide: Rows | None = None  # [N, w] what compares images otherwise
    has_keys: bool = True  # whether the file says them; else they are made up

    def __len__(self) -> int:
        return len(self.images)


def read_part(path: Path, image: str, text: str, guide: str = "") -> FeatureFile:
    """A file whose image features are called `image` and whose text features, if it has any, `text`; `guide` names
    vectors of the images that compare them otherwise."""
    sides = [f"{name}_{kind}" for name in (image, text) for kind in ("mask", "lengths")]
    arrays = read_arrays(path, (image, text, *sides, *filter(None, [guide]), IMAGE_OF_TEXT, KEYS, CAPTIONS, LABEL))
    if image not in arrays.tensors:
        found = ", ".join(arrays.names()) or "none of the arrays looked for"
        raise UserError(f"{path}: there is no array {image!r} (found {found}); name it with data.image")
    images = _rows(arrays, image, leading=1)
    count = len(images)
    owners = _owners(arrays, count)
    texts, per_image = _texts(arrays, text, count, flat=owners is not None)
    captions, said_per_image = _captions(arrays, flat=owners is not None)
    total = len(texts) if texts is not None else len(captions or ())
    if captions is not None and len(captions) != total:
        raise UserError(f"{path}: there are {total} texts but {len(captions)} captions; give one caption a text")
    if owners is None:
        owners = torch.arange(count).repeat_interleave(per_image or said_per_image)
    if len(owners) != total:
        raise UserError(
            f"{path}: {count} images and {total} texts do not belong together; "
            f"give {IMAGE_OF_TEXT!r}, the row of each text's image"
        )
    counts = torch.bincount(owners, minlength=count)
    if total and (counts == 0).any():
        raise UserError(f"{path}: image {int((counts == 0).long().argmax())} has no text; give it one or leave it out")
    said = _listed(arrays, KEYS, count)
    keys = said or [f"{path.stem}-{row}" for row in range(count)]
    order, labels, guides = owners.argsort(stable=True), _listed(arrays, LABEL, count), _guide(arrays, guide, count)
    return FeatureFile(path, images, texts, order, counts, captions, keys, labels, guides, bool(said))


def _guide(arrays: Arrays, name: str, images: int) -> Rows | None:
    if not name:
        return None
    if name not in arrays.tensors:
        raise UserError(f"{arrays.path}: there is no array {name!r}, by which data.guide compares images; add it")
    values = arrays.tensors[name]
    if values.ndim != 2 or len(values) != images:
        raise UserError(f"{arrays.path}: array {name!r} has the shape {_shape(values)}; give a vector for each image")
    return _rows(arrays, name, leading=1)


def _texts(arrays: Arrays, name: str, images: int, flat: bool) -> tuple[Rows | None, int]:
    """The text features one below the other, and how many each image has where all have as many."""
    if name not in arrays.tensors:
        return None, 0
    values = arrays.tensors[name]
    are_tokens = f"{name}_mask" in arrays.tensors or f"{name}_lengths" in arrays.tensors
    leading = 1 if flat else values.ndim - (2 if are_tokens else 1)
    if leading not in (1, 2):
        raise UserError(f"{arrays.path}: array {name!r} has the shape {_shape(values)}, which is not that of texts")
    if not flat and len(values) != images:
        raise UserError(
            f"{arrays.path}: array {name!r} has {len(values)} rows for {images} images; give one row an image, "
            f"or {IMAGE_OF_TEXT!r}, the row of each text's image"
        )
    return _rows(arrays, name, leading), values.shape[1] if leading == 2 else 1


def _rows(arrays: Arrays, name: str, leading: int) -> Rows:
    """Features whose first `leading` axes count rows, as one list of rows, checked."""
    values = arrays.tensors[name]
    where = f"{arrays.path}: array {name!r}"
    if values.ndim - leading not in (1, 2) or not values.numel():
        raise UserError(f"{where} has the shape {_shape(values)}; give vectors [N, w] or tokens [N, L, w], at least 1")
    if not values.is_floating_point():
        raise UserError(f"{where} holds {values.dtype} numbers; features are floating-point")
    mask = _mask(arrays, name, values) if values.ndim - leading == 2 else None
    for row in not_finite_rows(values.flatten(0, leading - 1), mask):
        kind = "row" if leading == 1 else f"(row, text) {tuple(divmod(row, values.shape[1]))}, counted as row"
        raise UserError(f"{where} has a number that is not finite in {kind} {row}; compute that row again")
    return Rows(values.flatten(0, leading - 1), mask)


def _mask(arrays: Arrays, name: str, values: Tensor) -> Tensor:
    """Which tokens are real [n, L]."""
    given = arrays.tensors.get(f"{name}_mask")
    lengths = arrays.tensors.get(f"{name}_lengths")
    longest = values.shape[-2]
    if given is not None:
        what, fits, mask = f"{name}_mask", given.shape == values.shape[:-1], given.bool()
    elif lengths is not None:
        what, fits = f"{name}_lengths", lengths.shape == values.shape[:-2] and bool((lengths <= longest).all())
        mask = torch.arange(longest) < lengths[..., None]
    else:
        what, fits, mask = name, True, torch.ones(values.shape[:-1], dtype=torch.bool)
    if not fits:
        raise UserError(f"{arrays.path}: array {what!r} does not fit {name!r} of the shape {_shape(values)}")
    mask = mask.flatten(0, -2)
    if not mask.any(dim=1).all():
        row = int((~mask.any(dim=1)).long().argmax())
        raise UserError(f"{arrays.path}: row {row} of {name!r} has no token at all, says {what!r}; leave it out")
    return mask


def not_finite_rows(rows: Tensor, mask: Tensor | None) -> Iterator[int]:
    """Rows with a NaN or an infinity in a real place, once they are the float32 of batches; read a few at a time, for
    the file may be larger than memory."""
    step = max(1, CHECKED_AT_ONCE // max(1, rows[0].numel()))
    for start in range(0, len(rows), step):
        good = rows[start : start + step].float().isfinite().all(dim=-1)
        if mask is not None:
            good = (good | ~mask[start : start + step]).all(dim=-1)
        yield from (start + place for place in (~good).nonzero()[:1, 0].tolist())


def _owners(arrays: Arrays, images: int) -> Tensor | None:
    """The image of each text [M], where the file says it."""
    owners = arrays.tensors.get(IMAGE_OF_TEXT)
    if owners is None:
        return None
    inside = ((owners >= 0) & (owners < images)).all()
    if owners.ndim != 1 or owners.is_floating_point() or not inside:
        raise UserError(
            f"{arrays.path}: {IMAGE_OF_TEXT!r} must be a list of rows from 0 to {images - 1}, one a text; correct it"
        )
    return owners.long()


def _captions(arrays: Arrays, flat: bool) -> tuple[list[str] | None, Tensor]:
    """All captions one below the other, and how many each image has."""
    rows = arrays.words.get(CAPTIONS)
    if rows is None:
        return None, torch.zeros((), dtype=torch.long)
    lists = [[row] if isinstance(row, str) else row for row in rows]
    for row, texts in enumerate(lists):
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise UserError(
                f"{arrays.path}: {CAPTIONS!r} of row {row} are {_shown(texts)}; give a text, or a list of texts"
            )
    if flat and any(len(texts) != 1 for texts in lists):
        raise UserError(f"{arrays.path}: with {IMAGE_OF_TEXT!r} each entry of {CAPTIONS!r} must be one text")
    return [str(text) for texts in lists for text in texts], torch.tensor([len(texts) for texts in lists])


def _listed(arrays: Arrays, name: str, count: int) -> list[str] | None:
    values = arrays.words.get(name)
    if values is None and name in arrays.tensors:
        values = arrays.tensors[name].tolist()
    if values is not None and len(values) != count:
        raise UserError(f"{arrays.path}: {name!r} has {len(values)} entries for {count} images; give one an image")
    if values is None:
        return None
    for row, value in enumerate(values):
        if not isinstance(value, str | int | float):  # lists of another kind, or None where one is missing
            raise UserError(f"{arrays.path}: {name!r} of row {row} is {_shown(value)}; give a text or a number")
    return [str(value) for value in values]


def _shown(value: object) -> str:
    return repr(value)[:40]


def _shape(tensor: Tensor) -> str:
    return str(list(tensor.shape))
