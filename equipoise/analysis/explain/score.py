"""What is explained: the similarity of pairs, or a part of it.

    part      space, readout                  score
    ()        any                             s(u, v), as the space has it
    (k,)      product of spheres              the k-th sphere's own similarity, of u_k and v_k
    (k, l)    product of spheres              that of u_k and v_l: a pair of class tokens (Multi)
    (c,)      code book (FDT)                 r_c(image) + r_c(text), relevance of the code c to each
    (j, l)    sets of tokens (FILIP)          <u_j, v_l>, of patch j and word token l

u, v points of a picture and a text. Sun & Li 2024, Fig. 7, draws (k,): each class token of a picture with its partner.
For a code the two terms have no variable in common, so each tower is explained by its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from equipoise.models.model import Model
from equipoise.readouts import CodeBook, CodeBookReadout
from equipoise.spaces import ProductSphere, TokenSets
from equipoise.types import Features, UserError


@dataclass(frozen=True)
class Side:
    """A tower's output for a batch."""

    features: Features
    points: Tensor  # [N, d]


def pair_scores(model: Model, image: Side, text: Side, part: Sequence[int] = ()) -> Tensor:
    """Scores of the pairs at equal places [N]."""
    if not part:
        return model.space.pairwise(image.points, text.points)
    if isinstance(model.shared, CodeBook) and isinstance(model.image_readout, CodeBookReadout):
        return _code(model, model.shared, image, text, part)
    if isinstance(model.space, ProductSphere):
        return _spheres(model.space, image.points, text.points, part)
    if isinstance(model.space, TokenSets):
        return _tokens(model.space, image.points, text.points, part)
    raise UserError(
        "the similarity of this model has no parts; leave --part out, or take a model with several class tokens, a "
        "code book or sets of tokens"
    )


def _spheres(space: ProductSphere, u: Tensor, v: Tensor, part: Sequence[int]) -> Tensor:
    k, other = _numbers((*part, *part) if len(part) == 1 else part, (space.m, space.m), "class tokens")
    one = ProductSphere(space.n, 1, space.distance)
    return one.pairwise(u.chunk(space.m, 1)[k], v.chunk(space.m, 1)[other])


def _tokens(space: TokenSets, u: Tensor, v: Tensor, part: Sequence[int]) -> Tensor:
    patch, word = _numbers(part, (space.m, space.m), "tokens")
    first, second = u.chunk(space.m, 1)[patch], v.chunk(space.m, 1)[word]
    if not (first.detach().any(1) & second.detach().any(1)).all():
        raise UserError(
            f"--part {patch},{word} names a place where a picture has no patch or the text no token; take less"
        )
    return (first * second).sum(1)


def _code(model: Model, book: CodeBook, image: Side, text: Side, part: Sequence[int]) -> Tensor:
    (code,) = _numbers(part, (len(book.codes),), "codes")
    readouts = (model.image_readout, image), (model.text_readout, text)
    both = [one.relevance(side.features, book)[:, code] for one, side in readouts if isinstance(one, CodeBookReadout)]
    return both[0] + both[1]


def _numbers(part: Sequence[int], sizes: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The part, as many numbers as `sizes`, each from 0 to below its size."""
    given = ",".join(map(str, part))
    if len(part) != len(sizes):
        raise UserError(f"--part {given} must be {len(sizes)} of this model's {what}, as numbers from 0")
    for number, size in zip(part, sizes, strict=True):
        if not 0 <= number < size:
            raise UserError(f"--part {given} is beyond this model's {size} {what}, which are counted from 0")
    return tuple(part)
