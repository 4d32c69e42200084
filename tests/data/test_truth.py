"""What is known of pairs, and fields of users' files that only have the same names."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.data.keep.records import records
from equipoise.data.remap import RemappedSource
from equipoise.data.scenes.annotation import has_scene
from equipoise.data.source import Pair
from equipoise.data.truth import wrong_captions
from equipoise.evaluation.vqa.data import VqaFiles, questions_of
from equipoise.reports.captions import judged_caption
from equipoise.types import UserError
from equipoise.workflows.audit import truth as audit_truth
from equipoise.workflows.claims.right_pairs import right_captions
from equipoise.workflows.clean import truth as clean_truth

OWNERS = np.array([0, 0, 1, 1])


class Told:
    """Records of which this is known."""

    def __init__(self, *truths: dict, captions: int = 2):
        self.truths, self.captions = truths, captions

    def __len__(self) -> int:
        return len(self.truths)

    def pair(self, index: int) -> Pair:
        captions = tuple(f"caption {number} of {index}" for number in range(self.captions))
        return Pair(f"{index}", captions, truth=self.truths[index])


@pytest.mark.parametrize(
    ("truth", "wrong"),
    [
        ({}, [False, False]),
        ({"is_clean": False}, [True, True]),
        ({"is_clean": False, "captions_true": [True, False]}, [False, True]),
        ({"is_clean": "no", "captions_true": 7}, [False, False]),
        ({"is_clean": False, "captions_true": ["yes", "no"]}, [True, True]),
        ({"is_clean": False, "captions_true": [True]}, [True, True]),
    ],
)
def test_captions_are_wrong_where_that_is_known(truth, wrong):
    assert wrong_captions(truth, 2).tolist() == wrong
    assert right_captions(Told(truth)).tolist() == [not one for one in wrong]


@pytest.mark.parametrize("value", ["yes", 1, None, {"by": "me"}], ids=str)
def test_fields_of_a_user_are_not_measured_against(value):
    source = Told({"is_clean": value, "noise": "low"}, {"is_clean": value, "noise": "near_duplicates"})
    assert clean_truth.measured(source, OWNERS, np.full(4, 0.5), np.ones(4, dtype=bool)) == {}
    assert clean_truth.kinds_against_truth(source, OWNERS, [""] * 4) == {}
    assert audit_truth.measured(np.zeros(2), [], source) == {}


def test_kinds_of_a_user_are_named_beside_a_truth():
    source = Told(
        {"is_clean": False, "noise": "shuffled", "details": {"camera": "X100"}},
        {"is_clean": True, "noise": {"iso": 400}, "details": "M"},
    )
    assert clean_truth.kinds_against_truth(source, OWNERS, ["another"] * 4)["kinds_against_truth"] == {
        "right": {"another": 2},
        "shuffled": {"another": 2},
    }


def test_near_duplicates_of_a_user_have_no_other_record():
    source = Told({"is_clean": False, "noise": "near_duplicates"}, {"is_clean": True})
    assert audit_truth.measured(np.array([0.1, 0.9]), [(0.5, 0, 1)], source)["true_noise"] == 0.5


def test_texts_of_another_take_no_fields_of_a_user_with_them():
    mixed = RemappedSource(Told({"captions_true": 7, "details": "M"}, {}), [0], [1])
    assert mixed.pair(0).truth == {
        "captions_true": [False, False], "details": "M", "is_clean": False, "noise": "shuffled", "other": "1",
    }  # fmt: skip
    mixed = RemappedSource(Told({"captions_true": [True, True], "details": ["x", "y"]}, {}), [0], [1])
    assert mixed.pair(0).truth["details"] is None


def test_a_record_without_captions_has_no_texts_by_the_name_of_a_field():
    assert [len(texts) for _, texts in records(Told({"text_names": ["x", "y"]}, captions=0))] == [0]


@pytest.mark.parametrize("scene", ["beach", None, {"things": ["table"]}, {"things": [], "background": "sky"}], ids=str)
def test_a_scene_of_a_user_is_no_scene(scene):
    source = Told({"scene": scene}, {"scene": scene})
    assert not has_scene(source.pair(0))
    assert judged_caption("a red fish", source.pair(0)) == ("", None)
    with pytest.raises(UserError, match="no scenes"):
        questions_of(source, source, VqaFiles(), 0)


def test_scenes_are_scenes(scenes):
    assert all(has_scene(scenes.pair(index)) for index in range(8))
