"""Questions about scenes: every answer against a reading of the scene by brute force, every text balanced."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from equipoise.data.scenes import Scenes
from equipoise.data.scenes.annotation import scene_of
from equipoise.data.scenes.language.naming import plural
from equipoise.data.scenes.vqa_balance import scene_questions
from equipoise.data.source import Pair
from equipoise.data.vqa_questions import Question
from equipoise.types import UserError

FEW = {"shapes": ("circle", "star", "ring", "fish"), "colours": ("red", "blue", "orange"), "max_things": 3}


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    source = Scenes.Config(test_size=400, **FEW).build("test")
    return [source.pair(index) for index in range(400)]


@pytest.fixture(scope="module")
def asked(pairs) -> list[Question]:
    return scene_questions(pairs)


def answer(text: str, things: list[dict]) -> str:
    """What the scene's own numbers say."""

    def only(noun: str) -> tuple[int, dict]:
        (found,) = [(n, t) for n, t in enumerate(things) if noun in (t["shape"], f"{t['colour']} thing")]
        return found

    if match := re.fullmatch(r"is there an? (\w+) (\w+)\?", text):
        return "yes" if any((t["colour"], t["shape"]) == match.groups() for t in things) else "no"
    if text == "how many things are there?":
        return str(len(things))
    if match := re.fullmatch(r"how many (\w+) things are there\?", text):
        return str(sum(t["colour"] == match[1] for t in things))
    if match := re.fullmatch(r"how many (\w+) are there\?", text):
        return str(sum(plural(t["shape"]) == match[1] for t in things))
    for pattern, attribute in (
        ("what colour is the (.+)", "colour"),
        ("what shape is the (.+)", "shape"),
        ("how large is the (.+)", "size"),
        ("what is the surface of the (.+) like", "texture"),
    ):
        if match := re.fullmatch(pattern + r"\?", text):
            return only(match[1])[1][attribute]
    match = re.fullmatch(r"is the (\w+) (.+) the (\w+)\?", text)
    (i, a), (j, b) = only(match[1]), only(match[3])
    apart = a["holder"] != j and b["holder"] != i
    holds = {
        "left of": apart and b["x"] - a["x"] > 0.12, "right of": apart and a["x"] - b["x"] > 0.12,
        "above": apart and b["y"] - a["y"] > 0.12, "below": apart and a["y"] - b["y"] > 0.12,
        "inside": a["holder"] == j, "around": b["holder"] == i,
    }  # fmt: skip
    return "yes" if holds[match[2]] else "no"


def test_every_answer_is_true(pairs, asked):
    things = {pair.key: pair.truth["scene"]["things"] for pair in pairs}
    for one in asked:
        assert one.answers == (answer(one.text, things[one.image]),) * 10, one
        kind = {"yes": "yes/no", "no": "yes/no"}.get(one.answers[0], "number" if one.answers[0].isdigit() else "other")
        assert one.kind == kind


def test_every_text_has_its_answers_equally_often(asked):
    counts: dict[str, Counter] = {}
    for one in asked:
        counts.setdefault(one.text, Counter())[one.answers[0]] += 1
    assert all(len(some) > 1 and len(set(some.values())) == 1 for some in counts.values())
    assert len({(one.text, one.image) for one in asked}) == len(asked)  # nothing is asked twice
    assert [one.number for one in asked] == list(range(len(asked)))


def test_all_kinds_are_asked_and_none_too_often(asked):
    kinds = Counter(one.kind for one in asked)
    assert set(kinds) == {"yes/no", "number", "other"}
    assert all(100 < count <= 400 for count in kinds.values())
    patterns = ("is there", "is the .* (left|right) of", "is the .* (inside|around)", "how many things", "how many red",
                "how many fish", "what colour", "what shape", "how large", "what is the surface")  # fmt: skip
    for pattern in patterns:
        assert any(re.match(pattern, one.text) for one in asked), pattern


def test_seeds_and_json(pairs, asked):
    assert scene_questions(pairs) == asked
    assert scene_questions(pairs, seed=1) != asked
    stored = [Pair(p.key, p.captions, truth=json.loads(json.dumps(dict(p.truth)))) for p in pairs]
    assert scene_questions(stored) == asked


def test_a_scene_comes_back_from_its_graph():
    source = Scenes.Config(test_size=20, max_things=4).build("test")
    for index in range(20):
        assert scene_of(json.loads(json.dumps(source.pair(index).truth["scene"]))) == source.scene(index)


def test_a_surface_without_a_name_is_not_asked_about():
    shifted = Scenes.Config(test_size=60, shift="texture", **FEW).build("test")
    pairs = [shifted.pair(index) for index in range(60)]
    textures = Counter(thing["texture"] for pair in pairs for thing in pair.truth["scene"]["things"])
    assert textures["checked"] > 20
    assert not any("surface" in one.text for one in scene_questions(pairs))  # "outlined" is the one that is named


def test_scenes_that_are_all_alike_are_refused(pairs):
    with pytest.raises(UserError, match="1 scenes are too few or too alike"):
        scene_questions(pairs[:1])
