"""A set of questions about scenes in which every question has all its answers equally often.

Goyal et al. 2017 balance VQA v2 by asking each question of two similar pictures with different answers, so that the
question alone says little. Scenes allow the exact form of it: of all scenes that answer a text one way or another, as
many are drawn for each answer. Then P(answer | text) is uniform, and whoever does not look at the picture is right
1/k of the time, k being the number of answers that the text has.

An answer that fewer than every 200th scene gives is left out, for it would leave few questions to the others; so is a
text with one answer. There are at most as many questions of a kind (yes/no, number, other) as scenes, shared evenly
among what they are about, then among texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from equipoise.data.rng import python_random
from equipoise.data.scenes.annotation import scene_of
from equipoise.data.scenes.vqa_questions import SceneQuestion, asked_of
from equipoise.data.source import Pair
from equipoise.data.vqa_questions import PEOPLE, Question
from equipoise.types import UserError

RARE = 200
Answers = Mapping[str, Sequence[int]]  # the scenes that give each answer


def scene_questions(pairs: Sequence[Pair], seed: int = 0) -> list[Question]:
    """Balanced questions about scenes, ten people of one mind each; the same for the same scenes and seed."""
    balanced = {one: answers for one, answers in _answered(pairs).items() if len(answers) > 1}
    if not balanced:
        raise UserError(f"these {len(pairs):,} scenes are too few or too alike to ask about; give more of them")
    topics = {kind: {one.about for one in balanced if one.kind == kind} for kind in {one.kind for one in balanced}}
    texts = Counter(one.about for one in balanced)
    chosen: list[tuple[SceneQuestion, str, int]] = []
    for one, answers in balanced.items():
        share = len(pairs) // (len(topics[one.kind]) * texts[one.about] * len(answers))
        each = min(max(1, share), *(len(scenes) for scenes in answers.values()))
        rng = python_random(seed, "questions", one.text)
        chosen += [(one, answer, scene) for answer, scenes in answers.items() for scene in rng.sample(scenes, each)]
    return [
        Question(number, pairs[scene].key, one.text, one.kind, (answer,) * PEOPLE, one.about)
        for number, (one, answer, scene) in enumerate(chosen)
    ]


def _answered(pairs: Sequence[Pair]) -> dict[SceneQuestion, Answers]:
    """Every question (its answer left open) with the scenes of each of its answers that is not rare."""
    found: dict[SceneQuestion, dict[str, list[int]]] = {}
    for number, pair in enumerate(pairs):
        for one in asked_of(scene_of(pair.truth["scene"])):
            open_question = SceneQuestion(one.kind, one.about, one.text, "", one.otherwise)
            found.setdefault(open_question, {}).setdefault(one.answer, []).append(number)
    fewest = max(1, len(pairs) // RARE)
    answered: dict[SceneQuestion, Answers] = {}
    for one in sorted(found, key=lambda one: (one.kind, one.about, one.text)):
        answers = found[one]
        if one.otherwise:
            others = {scene for scenes in answers.values() for scene in scenes}
            answers[one.otherwise] = [scene for scene in range(len(pairs)) if scene not in others]
        answered[one] = {answer: answers[answer] for answer in sorted(answers) if len(answers[answer]) >= fewest}
    return answered
