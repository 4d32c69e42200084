"""CoCa: an objective that compares images with texts and, beside it, captions written word by word.

Yu et al. 2022, "CoCa: Contrastive Captioners are Image-Text Foundation Models", Eq. 4.

    L = w_con L_of + w_cap L_cap,   L_cap = Σ_i cost_i / Σ_i words_i              w_con = 1, w_cap = 2

L_of is CLIP's loss in the paper; cost_i and words_i of `heads/caption.py`: L_cap is the mean over all words of the
batch, as in open_clip, whose weights these are. The captions are those that the batch contrasts. A term whose weight is
0 is computed all the same, so that the log shows it: `contrastive_weight = 0` is a captioner alone.

Weights of pairs count in L_of as they do there, and in L_cap as Σ_i q_i cost_i / Σ_i q_i words_i: a wrong pairing
teaches wrong words. Mixups may stand beside it (`mixup/m3mix.py`), as Oh et al. 2023 put m²-Mix, App. A.4.

Its relation to DeCLIP's hidden words (`declip.py`): there words are guessed from the text alone, and by a tower that
sees the whole of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from equipoise.heads import CaptionHead, HeadConfig
from equipoise.kernels import Scoring
from equipoise.objectives.clip import CLIP
from equipoise.objectives.cyclip import CyCLIP
from equipoise.objectives.objective import Objective
from equipoise.objectives.slip import SLIP
from equipoise.objectives.softclip import SoftCLIP
from equipoise.settings.choice import choice, choose_by_name
from equipoise.targets.weighted import pair_weights_of
from equipoise.types import Batch, Embeddings, Loss, UserError

BASES: dict[str, type[Objective]] = {"clip": CLIP, "softclip": SoftCLIP, "slip": SLIP, "cyclip": CyCLIP}
COST, WORDS = CaptionHead.roles


@dataclass(frozen=True)
class CoCa(Objective):
    cites: ClassVar[tuple[str, ...]] = ("yu2022coca",)

    of: Objective = choice(BASES, "clip")  # the objective that compares images with texts
    contrastive_weight: float = 1.0  # of that one
    caption_weight: float = 2.0  # of writing captions
    decoder: CaptionHead.Config = field(default_factory=CaptionHead.Config)  # what writes them

    def __post_init__(self) -> None:
        choose_by_name(self)
        for name in ("contrastive_weight", "caption_weight"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} must be at least 0, not {getattr(self, name)}")

    @property
    def mixes(self) -> bool:
        return self.of.mixes

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is CoCa and self.of.weighs_pairs

    @property
    def learned_bias(self) -> float | None:
        return self.of.learned_bias

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self.of.needs, COST, WORDS)

    @property
    def trains(self) -> tuple[str, ...]:
        return (*self.of.trains, COST)

    @property
    def views(self) -> tuple[str, ...]:
        return self.of.views

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        return {**self.of.heads, "caption": self.decoder}

    def prepared(self, batch: Batch) -> Batch:
        return self.of.prepared(batch)

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        cost, words = (embeddings.further.get(role) for role in (COST, WORDS))
        if cost is None or words is None:
            raise UserError(
                f"CoCa needs what captions cost, which the embeddings do not have; build the model with the "
                f"objective's heads, or give further={{'{COST}': [N], '{WORDS}': [N]}}"
            )
        plain = self.of.loss(embeddings, batch, scoring)
        weights = pair_weights_of(batch)
        mass = words if weights is None else words * weights.to(words)
        written = cost if weights is None else cost * weights.to(cost)
        caption = written.sum() / mass.sum().clamp(min=1e-6)
        total = self.contrastive_weight * plain.total + self.caption_weight * caption
        shares = {name: self.contrastive_weight * plain.weights.get(name, 1.0) for name in plain.terms}
        shares["caption"] = self.caption_weight
        return Loss(total, {**plain.terms, "caption": caption}, plain.facts, shares)
