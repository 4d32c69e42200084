"""Guides: similarities of another kind that set how strongly pairs should match.

Gao et al. 2024 (SoftCLIP), Eq. 6-7, and Table "source of softened targets"; Li et al. 2021 (ALBEF), Eq. 6 (`across`).
He et al. 2020 (MoCo), Eq. 2: the teacher may be the moving average of the model itself (`momentum`).

    score by row    exp(t) · s(r_i, r_j)        r, a [N, d] points or vectors of the same samples
    score by column exp(t) · s(a_i, a_j)
    across: both    exp(t) · s(r_i, a_j)        a teacher's own similarity of image i and text j

`by_row` and `by_col` name roles of the embeddings (then s is the model's space) or side data of the batch (vectors of
any width: then s is their cosine), of which `fixed_vectors.py` makes two from regions and tags. exp(t) is the model's
logit scale, as in the paper; `scale` fixes it instead, which vectors of another model may need, and `match_share` sets
it for every batch so that the guide leaves that share to the sample itself (`guide_scale.py`). The roles
`momentum_image` and `momentum_text` are the batch as the moving average of the weights sees it, without gradients
(`training.ema`); ALBEF's decay is 0.995, its β 0.4. Gradients flow into guides unless `stop_gradient`; the paper does
not say, but calls its targets "variable distributions". A sample that lacks what the guide reads (`has_regions` is
false in the side data, and so for every name) has a row without guide, which keeps its hard target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from equipoise.data.source import HAS
from equipoise.ops.scalar import scalar
from equipoise.spaces import Space, Sphere
from equipoise.targets.fixed_vectors import FIXED, REGION_VECTORS, TAG_VECTORS
from equipoise.targets.guide_scale import ROWS, log_scale_for
from equipoise.targets.target import Gather
from equipoise.types import MOMENTUM, Batch, Embeddings, UserError

ROLES = tuple(part.name for part in fields(Embeddings))


@dataclass(frozen=True)
class Guide:
    by_row: str = "regions"  # the role, or side data, that compares images
    by_col: str = "tags"  # the same for texts
    across: bool = False  # compare by_row with by_col, as a teacher does
    stop_gradient: bool = False  # whether the guide is not trained through
    scale: float = 0.0  # exp(t) of the guide; 0: the model's
    match_share: float = 0.0  # of the guide's softmax that a sample's own match is to have, by which exp(t) is set

    def __post_init__(self) -> None:
        if not self.by_row or not self.by_col:
            raise UserError("a guide needs by_row and by_col: roles of the embeddings, or names of side data")
        if self.scale < 0:
            raise UserError(f"scale must be positive, or 0 to share the model's, not {self.scale}")
        if not 0 <= self.match_share < 1:
            raise UserError(f"match_share must be from 0 to below 1, not {self.match_share}")
        if self.scale and self.match_share:
            raise UserError("scale and match_share both set the scale of the guide; give one of them")

    @property
    def cites(self) -> tuple[str, ...]:
        average = ("he2020moco",) if any(role.startswith(MOMENTUM) for role in self.needs) else ()
        return (*(("li2021albef",) if self.across else ("gao2024softclip",)), *average)

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in (self.by_row, self.by_col) if name in ROLES))

    def bind(
        self, embeddings: Embeddings, batch: Batch | None, *, log_scale: Tensor | float, space: Space
    ) -> tuple[GuideSimilarity, GuideSimilarity]:
        """The similarities that guide rows and those that guide columns."""
        row, col = (self._vectors(name, embeddings, batch, space) for name in (self.by_row, self.by_col))
        like = embeddings.image
        exact = torch.promote_types(like.dtype, torch.float32)  # bfloat16 would change a scale by a per cent
        t = scalar(math.log(self.scale) if self.scale else log_scale, exact, like.device)
        t = t.detach() if self.stop_gradient else t
        trained = tuple(name in ROLES for name in (self.by_row, self.by_col))
        if self.across:
            if row[1] != col[1]:
                raise UserError(
                    f"{self.by_row!r} and {self.by_col!r} live in different spaces; they cannot be compared"
                )
            known = _both(_known(self.by_row, batch), _known(self.by_col, batch))
            both = self._scaled(GuideSimilarity(row[0], col[0], t, row[1], known, trained=any(trained)))
            return both, both
        return (
            self._scaled(GuideSimilarity(row[0], row[0], t, row[1], _known(self.by_row, batch), trained=trained[0])),
            self._scaled(GuideSimilarity(col[0], col[0], t, col[1], _known(self.by_col, batch), trained=trained[1])),
        )

    def _scaled(self, guide: GuideSimilarity) -> GuideSimilarity:
        """The guide with the scale that leaves the wanted share to the match."""
        if not self.match_share:
            return guide
        plain = replace(guide, log_scale=torch.zeros_like(guide.log_scale))
        with torch.no_grad():
            similarity = plain.block(range(min(ROWS, len(guide.left))), range(len(guide.right)))
            t = log_scale_for(similarity, self.match_share, guide.known)
        return replace(guide, log_scale=t.to(guide.log_scale))

    def _vectors(self, name: str, embeddings: Embeddings, batch: Batch | None, space: Space) -> tuple[Tensor, Space]:
        if name in ROLES:
            points = embeddings.roles().get(name)
            if points is None:
                raise UserError(f"the guide looks at {name!r}, which the embeddings do not have; give them {name}=...")
            return (points.detach() if self.stop_gradient else points), space
        made = FIXED[name][0] if name in FIXED and batch is not None and name not in batch.side else None
        found = made(batch) if made and batch is not None else None if batch is None else batch.side.get(name)
        if found is None:
            known = ", ".join((*ROLES, *(batch.side if batch else ()), *FIXED))
            raise UserError(
                f"there is no {name!r} to guide the target; give the batch {name}=..., or choose among {known}"
            )
        if found.ndim != 2 or not found.is_floating_point() or len(found) != len(embeddings.image):
            raise UserError(f"{name!r} has the shape {list(found.shape)}; a guide needs one vector a sample, [N, w]")
        sphere = Sphere(found.shape[1])
        return sphere.project(found.to(embeddings.image)), sphere


@dataclass(frozen=True)
class GuideSimilarity:
    """A guide's scores of samples, for any block: exp(t) · s(left_i, right_j)."""

    left: Tensor  # [N, w]
    right: Tensor
    log_scale: Tensor
    space: Space
    known: Tensor | None = None  # bool [N], False for samples without a guide; None where all have one
    origin: tuple[int, int] = (0, 0)  # numbers in the batch of the first samples of `left` and `right`
    trained: bool = False  # whether the model makes the points, so that they know little at first

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.left, self.right, self.log_scale

    def on(self, tensors: tuple[Tensor, ...], origin: tuple[int, int] = (0, 0)) -> GuideSimilarity:
        left, right, log_scale = tensors
        return replace(self, left=left, right=right, log_scale=log_scale, origin=origin)

    def whole(self, gather: Gather) -> GuideSimilarity:
        """The same with `known` of all samples, from those of one shard."""
        all_known = torch.ones(len(self.left), dtype=torch.bool, device=self.left.device)
        known = gather(all_known if self.known is None else self.known)
        return replace(self, known=None if bool(known.all()) else known)

    def gathered(self, gather: Gather) -> GuideSimilarity:
        """The scores of all samples without gradients, from the points of one shard."""
        return replace(self.whole(gather), left=gather(self.left), right=gather(self.right))

    def block(self, rows: range, cols: range) -> Tensor:
        first_row, first_col = self.origin
        left = self.left[rows.start - first_row : rows.stop - first_row]
        right = self.right[cols.start - first_col : cols.stop - first_col]
        return self.log_scale.exp() * self.space.similarity(left, right).to(self.log_scale.dtype)


def _known(name: str, batch: Batch | None) -> Tensor | None:
    made_of = FIXED[name][1] if name in FIXED else name
    known = None if batch is None else batch.side.get(HAS + made_of)
    return None if known is None or bool(known.all()) else known


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one & other


GUIDES: dict[str, Guide] = {
    "regions_tags": Guide(),
    "image_text": Guide(by_row="image", by_col="text"),
    "fixed_regions_tags": Guide(by_row=REGION_VECTORS, by_col=TAG_VECTORS, match_share=0.5),
    "fixed_tags": Guide(by_row=TAG_VECTORS, by_col=TAG_VECTORS, match_share=0.5),
    "vectors": Guide(by_row="image_vectors", by_col="text_vectors"),
    "teacher": Guide(by_row="teacher_image", by_col="teacher_text", across=True),
    "momentum": Guide(by_row="momentum_image", by_col="momentum_text", across=True, stop_gradient=True),
}
