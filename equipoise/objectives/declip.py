"""DeCLIP: further supervision from pairs. Two views of image and text, each modality by itself, and similar texts.

Li et al. 2022, "Supervision Exists Everywhere: A Data Efficient Contrastive Language-Image Pre-training Paradigm",
§3, and their code.

    L = 0.4 L_CLIP + 0.2 L_SimSiam + 0.2 L_MLM + 0.2 L_NN

    L_CLIP     mean of CLIP's loss over the four pairs (image, image_view2) x (text, text_view2)
    L_SimSiam  objectives/self_supervised.py on the two views of the image
    L_MLM      Σ_i cost_i / number of hidden words                      heads/mlm.py
    L_NN       mean over the same four pairs of -log softmax_j(exp(t)·s(image_i, nearest(text_j))) at j = i

The text is the caption with hidden words, as in the authors' code, text_view2 the changed one (`text_views = "eda"`),
another caption of the same record ("caption"), or none, which leaves two pairs: a changed word may make a caption
false, two adjectives exchanged for instance. `words_ramp` is a share of the run in which the weight of L_MLM rises from
0, linearly. nearest(.) is the closest text in a queue of 65,536 (heads/text_queue.py); no gradient flows into it, and
only images look for texts. A term whose weight is 0 asks for nothing. With the readout `code_book` this is DeCLIP+FDT.
Weights of pairs count in L_CLIP and L_NN; the other two look at images alone and at texts alone, of which a wrong
pairing says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import torch
from torch import Tensor

from equipoise.data.source import HIDDEN, IMAGE_VIEW2, MASKED_WORDS, OTHER_CAPTION, TEXT_VIEW2
from equipoise.forms import FORMS, CrossEntropy, Form
from equipoise.heads import Head, HeadConfig, MLMHead, SimSiamHead, TextQueue
from equipoise.kernels import Scoring
from equipoise.objectives.clip import CLIP
from equipoise.objectives.objective import Objective
from equipoise.objectives.self_supervised import simsiam
from equipoise.settings.bounds import bounded
from equipoise.settings.choice import choice, choose_by_name
from equipoise.targets import TARGETS, OneHot, Target
from equipoise.targets.weighted import pair_weights_of, weighted_pairs
from equipoise.types import Batch, Embeddings, Loss, UserError

TERMS: dict[str, type[Head]] = {
    "simsiam": SimSiamHead,
    "words": MLMHead,
    "nearest": TextQueue,
}  # terms that a head computes, and which
TEXT_VIEWS: dict[str, tuple[str, ...]] = {"eda": (TEXT_VIEW2,), "caption": (OTHER_CAPTION,), "none": ()}


@dataclass(frozen=True)
class DeCLIP(Objective):
    clip_weight: float = 0.4  # of L_CLIP
    simsiam_weight: float = 0.2  # of L_SimSiam: two views of an image
    words_weight: float = 0.2  # of L_MLM: hidden words
    nearest_weight: float = 0.2  # of L_NN: the closest text of the queue
    words_ramp: float = 0.0  # share of the run in which words_weight rises from 0
    text_views: str = "eda"  # what the second text is: eda (words changed), caption (another of the record), none
    queue: int = bounded(65_536, 1, 2**24)  # texts that are remembered
    width: int = bounded(1024, 1, 2**16)  # of SimSiam's projector
    bottleneck: int = bounded(512, 1, 2**16)  # of its predictor
    target: Target = choice(TARGETS, "one_hot")  # who matches whom
    form: Form = choice(FORMS, "cross_entropy")  # how similarity is held against the target
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        choose_by_name(self)
        for name in ("clip_weight", *(f"{term}_weight" for term in TERMS)):
            if getattr(self, name) < 0:
                raise UserError(f"{name} must be at least 0, not {getattr(self, name)}")
        if not 0 <= self.words_ramp <= 1:
            raise UserError(f"words_ramp must be a share of the run, from 0 to 1, not {self.words_ramp}")
        if self.text_views not in TEXT_VIEWS:
            raise UserError(f"text_views must be one of {', '.join(TEXT_VIEWS)}, not {self.text_views!r}")
        if min(self.queue, self.width, self.bottleneck) < 1:
            raise UserError("queue, width and bottleneck must be at least 1")
        if self.form.learned_bias is not None:
            raise UserError(
                "texts of a queue are compared by a softmax, which knows no bias; set form.learned to false"
            )
        self._clip()

    @property
    def cites(self) -> tuple[str, ...]:
        cited = {"simsiam": ("chen2021simsiam",), "words": ("devlin2019bert",), "nearest": ("dwibedi2021nnclr",)}
        eda = ("wei2019eda",) if self.text_views == "eda" else ()
        return ("li2022declip", "radford2021clip", *eda, *(key for term in self._terms() for key in cited[term]))

    @property
    def weighs_pairs(self) -> bool:
        """Weights are those of the caption that was drawn, which say nothing of another one."""
        return type(self) is DeCLIP and self._clip().weighs_pairs and self.text_views != "caption"

    @property
    def needs(self) -> tuple[str, ...]:
        of_heads = (role for term in self._terms() for role in self._roles(term))
        second = (TEXT_VIEW2,) if TEXT_VIEWS[self.text_views] else ()
        return tuple(dict.fromkeys((*self._clip().needs, IMAGE_VIEW2, *second, *of_heads)))

    @property
    def trains(self) -> tuple[str, ...]:
        still = {"image_projected", "image_projected2", *TextQueue.roles, *self._clip().needs}
        return (*self._clip().trains, *(role for role in self.needs if role not in still))

    @property
    def views(self) -> tuple[str, ...]:
        return (IMAGE_VIEW2, *TEXT_VIEWS[self.text_views], *((MASKED_WORDS,) if self.words_weight else ()))

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        made: dict[str, HeadConfig] = {
            "simsiam": SimSiamHead.Config(self.width, self.bottleneck),
            "words": MLMHead.Config(),
            "nearest": TextQueue.Config(self.queue, len(self._roles("nearest"))),
        }
        return {term: made[term] for term in self._terms()}

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        assert embeddings.image_view2 is not None
        images, further = (embeddings.image, embeddings.image_view2), embeddings.further
        texts = [points for points in (embeddings.text, embeddings.text_view2) if points is not None]

        def clip(image: Tensor, text: Tensor) -> Tensor:
            pair = replace(embeddings, image=image, text=text)
            return self._clip().loss(pair, batch, scoring).total

        def nearest(image: Tensor, text: Tensor) -> Tensor:
            form = CrossEntropy(direction="rows")
            target = weighted_pairs(OneHot(), pair_weights_of(batch))
            return scoring.contrast(image, text.detach(), target=target, form=form, impl=self.impl)

        terms = {"contrastive": _mean(clip(i, t) for i, t in product(images, texts))}
        if self.simsiam_weight:
            first, second, predicted, predicted2 = (further[role] for role in SimSiamHead.roles)
            terms["simsiam"] = simsiam((first, second), (predicted, predicted2))
        if self.words_weight:
            assert batch is not None
            terms["words"] = further["words_cost"].sum() / batch.side[HIDDEN].sum().clamp(min=1)
        if self.nearest_weight:
            known = [further[role] for role in self._roles("nearest")]
            terms["nearest"] = _mean(nearest(i, t) for i, t in product(images, known))
        weights = {"contrastive": self.clip_weight, **{term: getattr(self, f"{term}_weight") for term in TERMS}}
        if self.words_ramp and batch is not None:
            weights["words"] *= min(1.0, batch.moment.progress / self.words_ramp)
        total = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
        return Loss(total, terms, partial(dict, {f"weight/{name}": weights[name] for name in terms}), weights)

    def _roles(self, term: str) -> tuple[str, ...]:
        """The roles of a term's head; of the queue, as many as there are texts."""
        roles = TERMS[term].roles
        return roles[: 1 + len(TEXT_VIEWS[self.text_views])] if term == "nearest" else roles

    def _clip(self) -> CLIP:
        return CLIP(self.target, self.form, self.impl)

    def _terms(self) -> list[str]:
        return [term for term in TERMS if getattr(self, f"{term}_weight")]


def _mean(losses: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(losses)).mean()
