"""Captions to look at: what a model writes of some test pictures, beside what they came with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.data.scenes.annotation import has_scene, scene_of
from equipoise.data.source import Pair, has_features
from equipoise.evaluation import EVALUATIONS
from equipoise.evaluation.captioning import read
from equipoise.evaluation.captions.statements import judge
from equipoise.evaluation.encoding import Encoded
from equipoise.reports.examples import PICTURE_SIZE
from equipoise.reports.held_out import evenly


@dataclass(frozen=True)
class WrittenCaption:
    """A picture, the caption that the model wrote, one that it came with, and what is known of the first."""

    image: np.ndarray  # uint8 [H, W, 3]
    caption: str
    reference: str
    verdict: str = ""  # "3 of 4 statements are true", where the truth is known
    correct: bool | None = None  # whether all are


def gather_captions(encoded: Encoded, count: int = 8) -> list[WrittenCaption]:
    """Captions of pictures that are evenly spaced in the test set; none of a model that writes none."""
    evaluation = EVALUATIONS["captioning"]
    if has_features(encoded.source) or not (evaluation.applies(encoded.source) and evaluation.suits(encoded.model)):
        return []
    shown = []
    for index in evenly(len(encoded.source), count):
        pair, caption = encoded.source.pair(index), encoded.written[index]
        image = encoded.source.images([index], PICTURE_SIZE)[0].permute(1, 2, 0).cpu().numpy()
        shown.append(WrittenCaption(image, caption, pair.captions[0], *judged_caption(caption, pair)))
    return shown


def judged_caption(caption: str, pair: Pair) -> tuple[str, bool | None]:
    """What is known of a caption, and whether all of it is true; nothing where the truth is not known."""
    if not has_scene(pair):
        return "", None
    meaning = read(caption)
    if meaning is None:
        return "no sentence of the scenes' grammar", False
    found = judge(meaning, scene_of(pair.truth["scene"]))
    return f"{found.true} of {found.said} statements are true", found.true == found.said
