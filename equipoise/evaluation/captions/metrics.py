"""All metrics of captions against references that need nothing but the texts."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.evaluation.captions.bleu import bleu
from equipoise.evaluation.captions.cider import cider_d
from equipoise.evaluation.captions.ptb import ptb_tokens
from equipoise.evaluation.captions.rouge import rouge_l
from equipoise.types import UserError


def caption_metrics(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> dict[str, float]:
    """BLEU-1 to BLEU-4, ROUGE-L and CIDEr-D by the names that pycocoevalcap gives them: references [image][any number]
    and one caption per image, as texts; tokens are those of `ptb.py`."""
    check_captions(references, candidates)
    wanted = [[ptb_tokens(text) for text in several] for several in references]
    made = [ptb_tokens(text) for text in candidates]
    scores = {f"Bleu_{n}": score for n, score in enumerate(bleu(wanted, made), start=1)}
    return {**scores, "ROUGE_L": rouge_l(wanted, made), "CIDEr": cider_d(wanted, made)}


def check_captions(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> None:
    """Raise UserError where there is not one text per image and a list of references beside it."""
    if len(references) != len(candidates) or not candidates:
        raise UserError(
            f"there are references of {len(references)} images and {len(candidates)} captions; give one caption per "
            "image"
        )
    for number, (several, text) in enumerate(zip(references, candidates, strict=True)):
        if isinstance(several, str) or not several:
            raise UserError(f"image {number} has no list of references; give at least one text in a list")
        if not all(isinstance(one, str) for one in (text, *several)):
            raise UserError(f"image {number}: captions and references must be texts")
