"""The completeness probe: its sentences word by word, its number against a loop, COCO's files."""

from __future__ import annotations

import json
from random import Random

import pytest
import torch

from equipoise.cli import main
from equipoise.data.files.coco import read_objects
from equipoise.data.scenes.language.parser import parse
from equipoise.data.scenes.relevance import relevance
from equipoise.evaluation.completeness import (
    SentencePair,
    added,
    balanced,
    completeness,
    judged,
    left_out,
    listed,
)
from equipoise.evaluation.completeness_scenes import scene_contrasts
from equipoise.types import UserError
from equipoise.workflows.completeness import contrasts_of

COCO = {
    "images": [{"id": 1, "file_name": "000000000001.jpg"}, {"id": 2, "file_name": "val/000000000002.jpg"}],
    "annotations": [
        {"image_id": 1, "category_id": 5}, {"image_id": 1, "category_id": 3}, {"image_id": 1, "category_id": 5},
        {"image_id": 2, "category_id": 3}, {"image_id": 1, "category_id": 9},
    ],
    "categories": [{"id": 3, "name": "dog"}, {"id": 5, "name": "fire hydrant"}, {"id": 9, "name": "car"}],
}  # fmt: skip


def test_sentences_are_those_of_the_paper():
    found = left_out(7, ["cat", "dog", "car", "dog"])
    assert {one.matched for one in found} == {"An photo contains cat, dog, and car"}
    assert [one.partial for one in found] == [
        "An photo contains dog and car",
        "An photo contains cat and car",
        "An photo contains cat and dog",
    ]
    assert {(one.image, one.objects) for one in found} == {(7, 3)}
    assert [one.partial for one in left_out(0, ["a", "b"], "see {}")] == ["see b", "see a"]
    assert left_out(0, ["cat", "cat"]) == []
    assert listed(["a", "b", "c", "d"]) == "a, b, c, and d"
    with pytest.raises(UserError, match="has no place for the objects"):
        left_out(0, ["a", "b"], "see")


def test_the_control_names_one_object_that_is_not_there():
    names, known = ["cat", "dog", "car"], ["cat", "bus", "dog", "cow", "car", "pig", "hen"]
    found = added(7, names, known, Random(0))
    assert len(found) == len(left_out(7, names))
    assert {one.matched for one in found} == {one.matched for one in left_out(7, names)}
    for one in found:
        said = one.partial.removeprefix("An photo contains ").replace(" and ", " ").split(", ")
        assert [name for name in said if name in names] == names  # the others, in their order
        assert len(said) == 4
        assert set(said) - set(names) <= {"bus", "cow", "pig", "hen"}
    assert len({one.partial for one in found}) == 3
    assert len(added(7, names, [*names, "bus"], Random(0))) == 1
    assert added(7, names, names, Random(0)) == added(7, ["cat"], known, Random(0)) == []


def test_who_goes_by_length_has_half_of_both_kinds():
    contrasts = left_out(0, ["cat", "dog"]) + added(0, ["cat", "dog"], ["bus", "cow"], Random(0))
    longer = [len(one.matched) > len(one.partial) for one in contrasts]
    found = completeness(contrasts, longer)
    assert {one.kind: one.right for one in found if not one.objects} == {"object left out": 1, "object added": 0}
    assert balanced(found) == 0.5
    assert balanced(found[:1]) is None


def test_objects_of_a_file_in_cocos_form(tmp_path, scenes):
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(COCO))
    assert read_objects(path) == {"000000000001": ("fire hydrant", "dog", "car"), "000000000002": ("dog",)}
    path.write_text(json.dumps({**COCO, "categories": []}))
    with pytest.raises(UserError, match='entry 0 of "annotations" has the category_id 5'):
        read_objects(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_objects(tmp_path / "absent.json")
    path.write_text(json.dumps(COCO))
    with pytest.raises(UserError, match="knows none of these pictures, such as train-0000000"):
        contrasts_of([scenes.pair(0)], path, "", 0)


def test_sentences_about_scenes_are_true_or_false_as_they_should_be(scenes):
    kinds = set()
    for index in range(30):
        for one in scene_contrasts(index, scenes.pair(index)):
            kinds.add(one.kind)
            truth = relevance([scenes.scene(index)], [parse(one.matched.replace(", and", " and"))])
            said = relevance([scenes.scene(index)], [parse(one.partial.replace(", and", " and"))])
            assert truth.all()
            assert said.all() == one.kind.endswith("left out")
            assert one.matched != one.partial
    assert kinds == {"object left out", "object added", "attribute left out", "object swapped", "attribute swapped"}
    assert scene_contrasts(3, scenes.pair(3)) == scene_contrasts(3, scenes.pair(3))


@torch.no_grad()
def test_the_number_equals_a_loop(model, scenes):
    model = model.eval()
    contrasts = [one for index in range(12) for one in scene_contrasts(index, scenes.pair(index))]
    right = judged(model, scenes, contrasts)
    for one, is_right in zip(contrasts, right, strict=True):
        image = model.encode_image(scenes.images([one.image], model.preprocess.size))
        whole, part = (float(model.similarity(image, model.encode_text(text))) for text in (one.matched, one.partial))
        assert is_right == (whole > part) or abs(whole - part) < 1e-6
    found = completeness(contrasts, right)
    for one in found:
        some = [
            r for c, r in zip(contrasts, right, strict=True) if c.kind == one.kind and one.objects in (0, c.objects)
        ]
        assert (one.right, one.pairs) == (sum(some) / len(some), len(some))


def test_a_tie_counts_against_the_model_and_nothing_is_refused(model, scenes):
    same = SentencePair(0, "nothing left out", "a fish", "a fish", 1)
    assert judged(model.eval(), scenes, [same]) == [False]
    with pytest.raises(UserError, match="no picture of this data has two known objects"):
        judged(model, scenes, [])


@pytest.mark.slow
def test_the_command(finished_run, tmp_path, capsys):
    assert main(["completeness", str(finished_run), "--out", str(tmp_path)]) == 0
    assert "object left out" in capsys.readouterr().out
    record = json.loads((tmp_path / "completeness.json").read_text())
    assert {one["kind"] for one in record["found"]} >= {"object swapped", "attribute left out"}
    keys = [f"test-{number:07d}" for number in range(16)]
    coco = {
        "images": [{"id": n, "file_name": f"{key}.jpg"} for n, key in enumerate(keys)],
        "annotations": [{"image_id": n, "category_id": c} for n in range(16) for c in (0, 1)],
        "categories": [{"id": 0, "name": "dog"}, {"id": 1, "name": "car"}],
    }
    (tmp_path / "made.json").write_text(json.dumps(coco))
    words = ["completeness", str(finished_run), "--objects", str(tmp_path / "made.json"), "--out", str(tmp_path)]
    assert main(words) == 0
    (whole, two) = json.loads((tmp_path / "completeness.json").read_text())["found"]
    assert (whole["pairs"], two["pairs"], two["objects"]) == (32, 32, 2)
    coco["categories"].append({"id": 2, "name": "bus"})
    coco["annotations"].append({"image_id": 0, "category_id": 2})
    (tmp_path / "made.json").write_text(json.dumps(coco))
    assert main(words) == 0
    record = json.loads((tmp_path / "completeness.json").read_text())
    shares = {one["kind"]: one for one in record["found"] if not one["objects"]}
    assert shares["object added"]["pairs"] == 15  # a bus, to pictures without one
    assert record["balanced"] == (shares["object added"]["right"] + shares["object left out"]["right"]) / 2
