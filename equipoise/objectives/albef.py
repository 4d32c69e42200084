"""ALBEF: align images and texts by contrast, then fuse them to judge pairs and to guess hidden words.

Li et al. 2021, "Align before Fuse: Vision and Language Representation Learning with Momentum Distillation", §3.2-3.3,
and their code.

    L = L_ITC + L_ITM + L_MLM                                                                              (Eq. 5)

    L_ITC = ½ (L_i2t + L_t2i)       images among the texts of the moving average, and back   momentum_contrast.py
    L_ITM   Σ match_cost / Σ match_count                of each pair and two hard negatives       heads/fusion.py
    L_MLM   [(1 - α) Σ words_cost + α Σ words_soft_cost] / number of hidden words

α = 0.4 is how far the moving average of the weights (`training.ema`, 0.995) is believed, in L_ITC and in L_MLM; it
rises from 0 over `ramp` = 1 epoch. The queue holds 65,536 of each side. Differences from the authors' code: the
moving average forgets its first steps sooner (`training/ema.py`) and has no dropout, of which there is none here; it is
what is stored in the end. Queues start empty; the points of all processes are in them, and all are contrasted, while
hard negatives are drawn within a process, as theirs are. Their temperature, learned between 0.001 and 0.5, is the
recipe's: `temperature.max_scale` = 1000, without a lower bound. A term whose weight is 0 asks for nothing.
Cached gradients are refused where pairs are judged: negatives are drawn from the whole batch and encoded again.
Weights of pairs count in L_ITC by row, in L_ITM for the pair itself, whose negatives are wrong in any case, and in
L_MLM for all words of a text, which are guessed from the image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from equipoise.data.source import HIDDEN, MASKED_TEXT
from equipoise.encoders.fusion import FusionEncoder
from equipoise.heads import FusionHead, HeadConfig, MomentumQueue
from equipoise.heads.fusion import MATCH, SHARES, WORDS
from equipoise.kernels import Scoring
from equipoise.objectives.momentum_contrast import momentum_contrast
from equipoise.objectives.objective import Objective
from equipoise.settings.bounds import bounded
from equipoise.targets.weighted import pair_weights_of, relative
from equipoise.types import MOMENTUM, RECALLED, Batch, Embeddings, Loss, UserError

WEIGHTS = ("contrast_weight", "match_weight", "words_weight")


@dataclass(frozen=True)
class ALBEF(Objective):
    contrast_weight: float = 1.0  # of L_ITC
    match_weight: float = 1.0  # of L_ITM: do these two belong together?
    words_weight: float = 1.0  # of L_MLM: guess hidden words
    alpha: float = 0.4  # how far the moving average is believed
    ramp: float = 1.0  # epochs in which α rises from 0
    queue: int = bounded(65_536, 1, 2**24)  # points of each side that are remembered
    fusion: FusionEncoder.Config = field(default_factory=FusionEncoder.Config)  # the encoder of image and text together
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        for name in (*WEIGHTS, "ramp"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} must be at least 0, not {getattr(self, name)}")
        if not self.contrast_weight:
            raise UserError("contrast_weight must be above 0: without it no point is trained")
        if not 0 <= self.alpha <= 1:
            raise UserError(f"alpha must be from 0 to 1, not {self.alpha}")

    @property
    def cites(self) -> tuple[str, ...]:
        words = ("devlin2019bert",) if self.words_weight else ()
        return ("li2021albef", "he2020moco", "radford2021clip", *words)

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is ALBEF

    @property
    def needs(self) -> tuple[str, ...]:
        match, words = MATCH if self.match_weight else (), WORDS if self.words_weight else ()
        keys = (f"{MOMENTUM}image", f"{MOMENTUM}text", *sorted(RECALLED))
        return ("image", "text", *keys, *match, *words)

    @property
    def trains(self) -> tuple[str, ...]:
        match, words = MATCH[:1] if self.match_weight else (), WORDS if self.words_weight else ()
        return ("image", "text", *match, *words)

    @property
    def shown(self) -> tuple[str, ...]:
        points = (f"{MOMENTUM}image", f"{MOMENTUM}text") if self.match_weight else ()
        return (*points, *((f"{MOMENTUM}{SHARES}",) if self.words_weight and self.alpha else ()))

    @property
    def views(self) -> tuple[str, ...]:
        return (MASKED_TEXT,) if self.words_weight else ()

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        judged = bool(self.match_weight), bool(self.words_weight)
        fused = {"fusion": FusionHead.Config(self.fusion, *judged)} if any(judged) else {}
        return {**fused, "queue": MomentumQueue.Config(self.queue)}

    def check_batches(self, size: int, micro: int) -> None:
        if self.queue % size:
            raise UserError(
                f"objective.queue is {self.queue}, which batches of {size} do not fill evenly; set it to a multiple of "
                "training.batch_size"
            )
        if micro and self.shown:
            raise UserError(
                "training.micro_batch cannot be used with this objective, whose hard negatives and hidden words are "
                "those of the whole batch; set it to 0, and recompute_activations or more processes to save memory"
            )

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        alpha, further, of_pairs = self._alpha(batch), embeddings.further, pair_weights_of(batch)
        terms = self._contrasts(embeddings, alpha, scoring, of_pairs)
        weights = {name: self.contrast_weight * share for name, share in self._shares().items()}
        weights |= {"match": self.match_weight, "words": self.words_weight}
        if self.match_weight:
            terms["match"] = _match(further["match_cost"], further["match_count"], of_pairs)
        if self.words_weight:
            assert batch is not None
            costs = torch.lerp(further["words_cost"], further["words_soft_cost"], alpha)
            terms["words"] = _words(costs, batch.side[HIDDEN].sum(1), of_pairs)
        total = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
        return Loss(total, terms, partial(_facts, alpha, further), weights)

    def _contrasts(
        self, embeddings: Embeddings, alpha: float, scoring: Scoring, of_pairs: Tensor | None
    ) -> dict[str, Tensor]:
        """The contrastive terms by name."""
        image, text, queues = embeddings.image, embeddings.text, embeddings.further
        seen, told = embeddings.momentum_image, embeddings.momentum_text
        assert seen is not None
        assert told is not None
        compare = partial(momentum_contrast, scoring=scoring, alpha=alpha, weights=of_pairs, impl=self.impl)
        to_text = compare(image, told, queues.get("text_queue"), taught=seen)
        to_image = compare(text, seen, queues.get("image_queue"), taught=told)
        return {"contrastive": (to_text + to_image) / 2}

    def _shares(self) -> dict[str, float]:
        """What each contrastive term counts in their mean."""
        return {"contrastive": 1.0}

    def _alpha(self, batch: Batch | None) -> float:
        """α at the step of the batch; outside a run, as at its end."""
        if batch is None or not self.ramp:
            return self.alpha
        moment = batch.moment
        return self.alpha * min(1.0, (moment.step - 1) / (self.ramp * moment.epoch_steps))


def _match(costs: Tensor, counts: Tensor, of_pairs: Tensor | None) -> Tensor:
    """L_ITM of costs [N, 3] of pairs and of both negatives of each."""
    if of_pairs is not None:
        costs = torch.cat([relative(of_pairs.to(costs))[:, None] * costs[:, :1], costs[:, 1:]], 1)
    return costs.sum() / counts.sum()


def _words(costs: Tensor, hidden: Tensor, of_pairs: Tensor | None) -> Tensor:
    """L_MLM of costs [N] of texts with so many hidden words [N]."""
    if of_pairs is None:
        return costs.sum() / hidden.sum().clamp(min=1)
    mass = relative(of_pairs.to(costs))
    total = (mass * hidden).sum()
    return (mass * costs).sum() / torch.where(total > 0, total, 1)


def _facts(alpha: float, further: Mapping[str, Tensor]) -> dict[str, float]:
    """α, and the share of pairs that are told right where pairs are judged."""
    if "match_right" not in further:
        return {"alpha": alpha}
    return {"alpha": alpha, "match_accuracy": float(further["match_right"].sum() / further["match_count"].sum())}
