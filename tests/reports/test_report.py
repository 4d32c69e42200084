"""The report as a file: whole, self-contained, escaped, and honest in its one sentence."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from equipoise.finetuning.comparison import Comparison
from equipoise.reports.report import Confusion, ExampleSets, ImageQuery, TextQuery, verdict, write_report
from equipoise.types import UserError

EVIL = '<script>alert("x")</script>\'" onload=x & {{ 7 * 7 }}'
VOID = {"meta", "img", "br", "link", "input", "hr"}
PICTURE = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)


class Page(HTMLParser):
    """Elements with their attributes, the text people read, and whether the tags balance."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.open = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def report(folder, **changes):
    query = TextQuery(
        EVIL, [PICTURE] * 5, [True, False, True, False, False], [0.9, 0.8, 0.7, 0.6, 0.5], [True] + [False] * 4, 1, 9
    )
    described = ImageQuery(
        PICTURE, ["a fish", EVIL, "a star"], [True, False, False], [0.9, 0.8, 0.7], [False, False, True], 2, 9
    )
    given = {
        "title": EVIL,
        "facts": {EVIL: EVIL, "seed": "0"},
        "table_toml": f"name = '''{EVIL}'''",
        "metrics": [{"step": s, "loss": 1 / s, "validation/text_to_image_R@1": 0.5} for s in range(1, 30)],
        "results": {EVIL: {"text_to_image_R@1": 0.8, "text_to_image_queries": 1000.0, "rsum": 400.0, EVIL: 0.5}},
        "chance": {EVIL: {"text_to_image_R@1": 0.001}},
        "examples": ExampleSets([query], [query], [described], [described]),
        "bibliography": f"@misc{{x, title = {{{EVIL}}}}}",
        "confusion": Confusion(np.array([[3, 1], [0, 4]]), ["circle", EVIL]),
        "clamp": 100.0,
    }
    path = write_report(folder, **(given | changes))
    return path, Page(path.read_text(encoding="utf-8"))


def test_the_page_needs_nothing_else_and_runs_nothing(tmp_path):
    path, page = report(tmp_path)
    assert path == tmp_path / "report.html"
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]
    assert not page.all("script")
    assert not page.all("link")
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("src", "data:").startswith("data:")
        assert attributes.get("xlink:href", attributes.get("href", "#")).startswith("#")
    assert "default-src 'none'" in path.read_text()


def test_everything_untrusted_is_shown_as_text(tmp_path):
    path, page = report(tmp_path)
    assert "<script" not in path.read_text()
    assert page.text.count(" ".join(EVIL.split())) >= 9
    assert "onload=x & 49" not in page.text


def test_pictures_are_the_pictures(tmp_path):
    _, page = report(tmp_path)
    sources = [attributes["src"] for attributes in page.all("img")]
    assert len(sources) == 2 * 5 + 2
    assert all("alt" in attributes for attributes in page.all("img"))
    for source in sources:
        decoded = Image.open(io.BytesIO(base64.b64decode(source.split(",")[1])))
        assert (np.asarray(decoded) == PICTURE).all()


def test_matches_are_marked_without_colour_alone(tmp_path):
    _, page = report(tmp_path)
    right = [attributes for attributes in page.all("li") if attributes.get("class") == "right"]
    assert len(right) == 2 * 2 + 2 * 1
    assert page.text.count("✓") == len(right) + 1  # and once in the legend
    assert [one.get("class") for one in page.all("span")].count("tag") == 4 + 1


def test_ids_are_unique(tmp_path):
    _, page = report(tmp_path)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_what_is_missing_is_left_out(tmp_path):
    _, page = report(
        tmp_path,
        facts={}, table_toml="", metrics=[], results={}, chance={}, examples=ExampleSets(), bibliography="",
        confusion=None, clamp=None,
    )  # fmt: skip
    assert not page.all("h2")
    assert not page.all("img")
    assert "no retrieval numbers yet" in page.text


def test_a_run_stopped_by_nan_still_has_a_report(tmp_path):
    _, page = report(tmp_path, metrics=[{"step": 1, "loss": 2.0}, {"step": 2, "loss": float("nan")}])
    assert "Loss" in page.text


def test_the_verdict_is_honest():
    chance = {"test": {"text_to_image_R@1": 0.001}}

    def say(value):
        return verdict(
            {"zero-shot": {"acc1": 1.0}, "test": {"text_to_image_R@1": value, "text_to_image_queries": 1000.0}}, chance
        )

    assert say(0.913) == (
        "It learned: given a caption, the model ranks its own picture first among 1,000 in 91.3% of cases. "
        "Guessing would manage 0.10%."
    )
    assert say(0.003).startswith("It has not learned yet")  # three lucky queries of a thousand
    assert say(0.006).startswith("It learned")
    assert "guess" not in verdict({"test": {"text_to_image_R@1": 0.5}}, {})


def comparison(**changes):
    numbers = {
        "validation": {"start": {"mean_recall": 0.2}, "tuned": {"mean_recall": 0.5}},
        "test": {"start": {"text_to_image_R@1": 0.125}, "tuned": {"text_to_image_R@1": 0.75}},
    }
    given = {"start": "runs/first", "method": "lora", "metric": "mean_recall", "before": 0.2, "shares": (1.0,),
             "scores": (0.5,), "numbers": numbers, "left_out": "the start was trained on the same"}  # fmt: skip
    return Comparison(**(given | changes))


def test_fine_tuning_is_titled_by_what_was_done_with_before_and_after_first(tmp_path):
    results = {"retrieval": {"text_to_image_R@1": 0.75}}
    _, page = report(tmp_path, title="lora", results=results, chance={}, comparison=comparison())
    assert "first, fine-tuned by lora" in page.text
    assert "was 20.0% before and is 50.0% after" in page.text
    assert "75.0% before 12.5%" in page.text  # in its tile
    assert "The start was trained on the same." in page.text
    text = (tmp_path / "report.html").read_text()
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert headings[0] == "Before and after"
    assert "What it finds" in headings


def test_fine_tuning_that_did_not_help_says_so_first(tmp_path):
    _, page = report(tmp_path, comparison=comparison(scores=(0.1,)))
    assert "It did not help: mean recall on validation data was 20.0% before and 10.0% after" in page.text
    assert "α = 0 " in page.text


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        report(tmp_path / "taken")
