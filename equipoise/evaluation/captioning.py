"""Captions that a model writes: against references by the metrics of COCO, and on scenes against the truth itself.

Papineni et al. 2002 (BLEU), Lin 2004 (ROUGE-L), Vedantam et al. 2015 (CIDEr-D), as `captions/` has them; all captions
of an image are its references. Captions are greedy. Scenes know what is in a picture, so there each statement of a
caption is true or false (`captions/statements.py`): words that count for little among n-grams, as a colour does, count
for what they say. A caption that no grammar can read says nothing that is true.

Chance is what the same captions score on other pictures: a model that writes likely captions without looking.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.data.scenes.annotation import has_scene, scene_of
from equipoise.data.scenes.language.meaning import Meaning, true_of
from equipoise.data.scenes.language.parser import parse
from equipoise.data.scenes.scene import Scene
from equipoise.data.source import Source, has_features
from equipoise.evaluation.captions.metrics import caption_metrics
from equipoise.evaluation.captions.statements import judge
from equipoise.evaluation.encoding import Encoded, has_captions
from equipoise.evaluation.evaluator import EvalResult, Evaluator
from equipoise.evaluation.metrics import Metric
from equipoise.models.captioning import writes_captions
from equipoise.models.model import Model
from equipoise.types import UserError

SHIFTS = 8  # other pictures that each caption is held against, for chance
COUNTED = "Share of the captions' runs of 1 to {} words that a reference has too, times a penalty of short captions."
METRICS = {
    **{f"Bleu_{n}": Metric(f"BLEU-{n}", COUNTED.format(n), "plain") for n in range(1, 5)},
    "ROUGE_L": Metric("ROUGE-L", "Longest common subsequence of caption and references, from 0 to 1.", "plain"),
    "CIDEr": Metric("CIDEr-D", "Runs of 1 to 4 words in common, weighted by how few images have them.", "plain"),
    "caption_statements_true": Metric(
        "statements that are true", "Share of what a caption says (shapes, colours, relations, ...) that is true."
    ),
    "caption_things_named": Metric("things named", "Share of a picture's things that its caption names rightly."),
    "caption_true": Metric("captions that are true", "Share of captions all of whose statements are true."),
    "caption_read": Metric("captions that can be read", "Share of captions that are sentences of the scenes' grammar."),
}


class Captioning(Evaluator):
    """Writes a caption of every image, and compares it with the image's own and, on scenes, with what is there."""

    task = "captioning"
    cites = ("papineni2002bleu", "lin2004rouge", "vedantam2015cider")
    metrics = METRICS

    def applies(self, source: Source) -> bool:
        return has_captions(source) and not (has_features(source) and source.text_width is not None)

    def suits(self, model: Model) -> bool:
        return writes_captions(model)

    def __call__(self, encoded: Encoded) -> EvalResult:
        written, pairs = encoded.written, [encoded.source.pair(index) for index in range(len(encoded.source))]
        if len(pairs) < 2:  # of which CIDEr knows nothing
            return EvalResult({}, {})
        found = caption_metrics([pair.captions for pair in pairs], written)
        if not all(map(has_scene, pairs)):
            return EvalResult(found, {})
        scenes = [scene_of(pair.truth["scene"]) for pair in pairs]
        return EvalResult({**found, **truth_of(written, scenes)}, chance_of(written, scenes))


def truth_of(captions: Sequence[str], scenes: Sequence[Scene]) -> dict[str, float]:
    """Mean shares of captions, each of the scene at its place."""
    return _means([_shares(read(text), scene) for text, scene in zip(captions, scenes, strict=True)])


def chance_of(captions: Sequence[str], scenes: Sequence[Scene]) -> dict[str, float]:
    """The same shares of captions on pictures a few places further on."""
    meanings, count = [read(text) for text in captions], len(scenes)
    return _means(
        [
            _shares(meaning, scenes[(number + shift) % count])
            for shift in range(1, min(SHIFTS, count - 1) + 1)
            for number, meaning in enumerate(meanings)
        ]
    )


def read(caption: str) -> Meaning | None:
    """What a caption says; None where it is no sentence of the scenes' grammar."""
    try:
        return parse(caption)
    except UserError:
        return None


def _shares(meaning: Meaning | None, scene: Scene) -> dict[str, float]:
    if meaning is None:
        return dict.fromkeys(("caption_statements_true", "caption_things_named", "caption_true", "caption_read"), 0.0)
    found = judge(meaning, scene)
    return {
        "caption_statements_true": found.true / max(1, found.said),
        "caption_things_named": found.named / len(scene.things),
        "caption_true": float(true_of(meaning, scene)),
        "caption_read": 1.0,
    }


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
