"""Captions in a run's report: some that the model wrote, beside the pictures' own, and what is true of them."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import TINY_SETTINGS

from equipoise.config import Loaded, load_run
from equipoise.data.scenes.annotation import scene_of
from equipoise.data.scenes.language.parser import parse
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.evaluation.captions.statements import judge
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.settings import Evaluation
from equipoise.models.model import Model
from equipoise.reports.captions import WrittenCaption, gather_captions
from equipoise.reports.report import ExampleSets, write_report
from equipoise.workflows import build_model


@pytest.fixture(scope="module")
def coca(tokens: CaptionTokenizer) -> Model:
    return build_model(load_run("coca-scenes", TINY_SETTINGS).run, tokens)


def test_some_captions_are_shown_as_they_were_written(tiny: Loaded, coca: Model):
    encoded = Encoded(coca, tiny.run.data.build("test"), Evaluation())
    shown = gather_captions(encoded, count=4)
    assert [one.caption for one in shown] == [encoded.written[index] for index in (0, 5, 10, 15)]
    assert [one.reference for one in shown] == [encoded.source.pair(index).captions[0] for index in (0, 5, 10, 15)]
    assert all(one.image.shape == (128, 128, 3) for one in shown)


def test_the_truth_of_a_caption_is_told(tiny: Loaded, coca: Model):
    encoded = Encoded(coca, tiny.run.data.build("test"), Evaluation())
    pairs = [encoded.source.pair(index) for index in range(16)]
    encoded.__dict__["written"] = [pairs[0].captions[0], "a red fish", "blub", *[""] * 13]
    right, some, nonsense = gather_captions(encoded, count=16)[:3]
    assert right.correct
    judged = judge(parse("a red fish"), scene_of(pairs[1].truth["scene"]))
    assert some.verdict.startswith(f"{judged.true} of 2 ")
    assert some.correct == (judged.true == 2)
    assert nonsense.correct is False


def test_a_model_that_writes_none_shows_none(tiny: Loaded, tokens: CaptionTokenizer):
    assert gather_captions(Encoded(build_model(tiny.run, tokens), tiny.run.data.build("test"), Evaluation())) == []


def test_the_page_escapes_what_was_written(tmp_path):
    picture = np.zeros((8, 8, 3), np.uint8)
    one = WrittenCaption(picture, "<script>a fish</script>", "a <b>star</b>", "1 of 2 statements are true", False)
    page = write_report(
        tmp_path, title="t", facts={}, table_toml="", metrics=[], results={}, chance={}, examples=ExampleSets(),
        bibliography="", captions=[one],
    ).read_text(encoding="utf-8")  # fmt: skip
    assert "<script>" not in page
    assert "&lt;script&gt;a fish" in page
    assert "1 of 2 statements" in page
