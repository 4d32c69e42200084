"""The page for curators: what it shows and how it is escaped; in a browser, what keys, buttons and the handle do."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headless_browser import browser, found_browser

from equipoise.analysis.noise import NoiseEstimate, Pairs
from equipoise.analysis.noise_kinds import KINDS
from equipoise.cli import main
from equipoise.data.copies.find import Copy
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.keep.decisions import DECISIONS, KIND, digest_of_table, read_decisions
from equipoise.data.keep.file import KeepTable, read_keep, write_keep
from equipoise.data.keep.records import records
from equipoise.data.keep.rules import kept_captions
from equipoise.data.keep.settings import Keep
from equipoise.data.source import Pair
from equipoise.reports.curate_page import MEANINGS, PAGE, safe_json
from equipoise.workflows.audit.judge import judge
from equipoise.workflows.clean.page import write_curators_page
from equipoise.workflows.clean.probability import Evidence
from equipoise.workflows.clean.proposals import FalseNegative, Proposal, Proposals

SHOW = 6
SUSPECTED = ["another", "detail", "another", "", "detail", "another"]
EVIL = "</script><script>document.title = 'broken'</script><img src=x onerror=\"document.title='broken'\">&amp;\u2028"


class ChangedSource(WatchedSource):
    """Scenes, some of which have another first caption."""

    firsts: dict[int, str]

    def pair(self, index: int) -> Pair:
        pair = self.source.pair(index)
        return replace(pair, captions=(self.firsts[index], *pair.captions[1:])) if index in self.firsts else pair


@pytest.fixture
def evil(scenes) -> ChangedSource:
    """Some captions would break a page that does not escape."""
    source = ChangedSource(scenes)
    source.firsts = {0: EVIL, 9: EVIL + "9"}
    return source


def half_of_what_fails(thresholds: Sequence[float]) -> np.ndarray:
    return 50 * (1 - np.array(thresholds))


def made(
    source: Any,
    folder: Path,
    rule: str = "threshold",
    show: int = SHOW,
    before: Any = None,
    kinds: Any = (),
    still_wrong: Any = half_of_what_fails,
) -> KeepTable:
    """The page on a keep file in which caption 0 is the least likely, then caption 1, ...; `kinds` of the first."""
    named = list(records(source))
    owners = np.repeat(np.arange(len(named)), [len(texts) for _, texts in named])
    right = np.linspace(0.001, 0.999, len(owners), dtype=np.float32)
    right[-5:] = np.nan
    keep = kept_captions(right, "threshold", 0.5, 0.0)
    reasons = ["P(right) at least 0.5" if one else "P(right) below 0.5" for one in keep]
    table = KeepTable(
        [key for key, texts in named for _ in texts],
        np.concatenate([np.arange(len(texts)) for _, texts in named]),
        np.concatenate([texts for _, texts in named]),
        right,
        keep,
        keep.astype(np.float32),
        reasons,
        [*kinds, *[""] * (len(owners) - len(kinds))] if kinds else (),
    )
    write_keep(folder, table, {"noise": 0.5, "finding": "Found.", "rule": {"rule": rule, "threshold": 0.5}})
    if before is not None:
        (folder / DECISIONS).write_text(json.dumps(before(table)))
    estimate = NoiseEstimate(0.5, (0.4, 0.6), 1.0, 1.0)
    ratios = np.linspace(-5, 5, len(owners))
    evidence = Evidence(ratios, owners, np.zeros(len(named)), [estimate], [0.9], [True], [len(named)])
    proposals = Proposals(show, "caption")
    proposals.best = {0: Proposal((9, 0), 3.0), 1: Proposal((12, 3), 2.0)}
    proposals.false_negatives = [
        FalseNegative(20, (21, 1), 4.0),
        FalseNegative(30, (31, 1), 3.0),  # copies of one another, so no strangers
        FalseNegative(20, (21, 2), 2.0),  # the same two again
    ]
    copies = [Copy(30, 31, 1.0, exact=True), Copy(40, 41, 0.8, exact=False)]
    write_curators_page(folder, table, source, proposals, copies, evidence, still_wrong)
    return read_keep(folder)[0]


def held(table: KeepTable, decisions: dict[int, str], threshold: float | None = None) -> dict[str, Any]:
    """What `decisions.json` holds of these rows."""
    entries = [
        {"key": table.keys[row], "caption": int(table.captions[row]), "row": row, "decision": decision}
        for row, decision in decisions.items()
    ]
    about = {"kind": KIND, "version": 1, "keep": digest_of_table(table)}
    return {**about, "threshold": threshold, "decisions": entries}


def state_of(folder: Path) -> dict[str, Any]:
    text = (folder / PAGE).read_text()
    found = re.search(r'<script type="application/json" id="state">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_captions_cannot_break_the_page(evil, tmp_path):
    made(evil, tmp_path)
    text = (tmp_path / PAGE).read_text()
    assert text.count("<script") == 2
    assert 'onerror="' not in text
    assert "&lt;/script&gt;" in text
    state = state_of(tmp_path)
    assert state["pairs"][1]["with"]["text"] == EVIL + "9"
    assert "http" not in re.sub(r"http-equiv", "", text)  # nothing comes from elsewhere


def test_json_in_a_script_holds_no_sign_that_could_end_it():
    shown = safe_json({"a": EVIL, "b": "<!--", "ü": [1.5, None]})
    assert not set(shown) & set("<>&\u2028\u2029")
    assert json.loads(shown) == {"a": EVIL, "b": "<!--", "ü": [1.5, None]}
    with pytest.raises(ValueError, match="JSON"):
        safe_json(float("nan"))


def test_the_least_likely_are_shown_with_what_fits_better(scenes, tmp_path):
    table = made(scenes, tmp_path)
    text, state = unescape((tmp_path / PAGE).read_text()), state_of(tmp_path)
    assert [pair["row"] for pair in state["pairs"]] == list(range(SHOW))
    assert state["digest"] == digest_of_table(table)
    assert state["pairs"][0]["with"] == {
        "row": 45,
        "key": table.keys[45],
        "caption": 0,
        "text": scenes.pair(9).captions[0],
    }
    assert all(caption in text for caption in (*scenes.pair(0).captions, scenes.pair(9).captions[0]))
    assert text.count('class="picture"') == SHOW + 2 * 2 + 2  # captions, two copies, one false negative
    assert "P(right) below 0.5" in text


def test_what_nothing_is_known_of_is_not_shown(scenes, tmp_path):
    table = made(scenes, tmp_path, show=0)
    assert len(table) - 5 == len(table.suspicious())
    assert state_of(tmp_path)["pairs"] == []


def test_a_caption_that_fits_no_better_or_is_there_already_is_not_proposed(scenes, tmp_path):
    twin = ChangedSource(scenes)
    twin.firsts = {9: scenes.pair(0).captions[3]}
    made(twin, tmp_path)
    assert "with" not in state_of(tmp_path)["pairs"][0]  # both records say the same
    made(scenes, tmp_path / "b", show=100)
    pairs = {pair["row"]: pair for pair in state_of(tmp_path / "b")["pairs"]}
    assert "with" in pairs[5]
    assert not any("with" in pair for row, pair in pairs.items() if row >= 10)


def test_counts_at_every_threshold_are_those_of_the_rule(scenes, tmp_path):
    table = made(scenes, tmp_path)
    state = state_of(tmp_path)
    for threshold, kept, wrong in zip(state["grid"], state["kept"], state["wrong"], strict=True):
        keep = kept_captions(table.right, "threshold", threshold, 0.0)
        assert kept == keep.sum()
        assert wrong == pytest.approx(50 * (1 - threshold))
    assert sum(state["bars"]) == state["known"] == len(table) - 5
    made(scenes, tmp_path / "untold", still_wrong=None)
    assert state_of(tmp_path / "untold")["wrong"] is None


def test_decisions_of_before_are_where_the_page_starts(scenes, tmp_path):
    def before(table: KeepTable) -> dict[str, Any]:
        entry = {"key": table.keys[200], "caption": 0, "decision": "swap"}
        other = {"key": table.keys[7], "caption": 2}
        digest = digest_of_table(read_keep(tmp_path)[0])
        entries = [{**entry, "with": other}]
        return {"kind": KIND, "version": 1, "keep": digest, "threshold": 0.25, "decisions": entries}

    made(scenes, tmp_path, before=before)
    start = state_of(tmp_path)["start"]
    assert start["threshold"] == 0.25
    assert [(one["row"], one["decision"], one["with"]["row"]) for one in start["decisions"]] == [(200, "swap", 7)]
    assert start["decisions"][0]["with"]["text"] == scenes.pair(1).captions[2]


def test_a_threshold_between_two_steps_has_a_place_of_its_own(scenes, tmp_path):
    table = made(scenes, tmp_path, before=lambda table: held(table, {}, 0.2345))
    state = state_of(tmp_path)
    place = state["grid"].index(0.2345)
    assert state["grid"] == sorted(state["grid"])
    assert state["kept"][place] == int(kept_captions(table.right, "threshold", 0.2345, 0.0).sum())
    assert len(state["wrong"]) == len(state["kept"]) == len(state["grid"])


def test_decisions_of_another_keep_file_are_named_and_left_out(scenes, tmp_path, capsys):
    made(scenes, tmp_path, before=lambda _: {"kind": "other"})
    assert state_of(tmp_path)["start"] is None
    assert DECISIONS in capsys.readouterr().out


def test_the_best_caption_is_that_of_a_loop_over_all(model):
    generator = torch.Generator().manual_seed(0)
    images = model.space.project(torch.randn(12, 16, generator=generator))
    owners = torch.arange(12).repeat_interleave(2)
    texts = model.space.project(images[owners] + 0.05 * torch.randn(24, 16, generator=generator))
    texts[:4] = texts[[8, 9, 10, 11]]  # what the first two pictures have belongs to others
    points = Pairs(images, texts, owners)
    judged = judge(points, model, 0, 0.2)
    proposals = Proposals(4, "caption")
    part = list(range(100, 112))
    proposals.look(part, points, model, judged)
    fit = judged.fit(points, model.space.similarity, torch.arange(12), torch.arange(24))
    for record, proposal in proposals.best.items():
        others = [text for text in range(24) if int(owners[text]) != record - 100]
        best = max(others, key=lambda text: float(fit[record - 100, text]))
        assert proposal.place == (100 + best // 2, best % 2)
        assert proposal.log_ratio == pytest.approx(float(fit[record - 100, best]))
    assert {100, 101} <= set(proposals.best)
    assert all(one.place[0] != one.record for one in proposals.false_negatives)


def test_kinds_are_shown_and_counted(scenes, tmp_path):
    made(scenes, tmp_path, kinds=SUSPECTED)
    text = (tmp_path / PAGE).read_text()
    assert re.findall(r'data-number="\d+" data-kind="(\w*)"', text) == SUSPECTED
    assert re.findall(r'<span class="kind">(\w+)</span>', text) == [kind for kind in SUSPECTED if kind]
    buttons = re.findall(r'data-filter="(\w*)"[^>]*?( disabled)?>([^<]+)</button>', text)
    assert buttons == [
        ("", "", "All 6"),
        ("another", "", "another 3"),
        ("detail", "", "detail 2"),
        ("vague", " disabled", "vague 0"),
    ]
    assert list(read_keep(tmp_path)[0].kinds[:SHOW]) == SUSPECTED


def test_without_kinds_there_is_nothing_to_choose(scenes, tmp_path):
    made(scenes, tmp_path)
    assert "data-filter" not in (tmp_path / PAGE).read_text().partition("<script")[0]


def test_every_kind_of_noise_is_explained():
    assert tuple(MEANINGS) == KINDS


def test_a_number_of_captions_that_no_browser_bears_is_refused(tmp_path, capsys):
    assert main(["clean", "demo", "--show", "-1", "--out", str(tmp_path / "a")]) == 2
    assert "--show is -1" in capsys.readouterr().err


# In a browser


@pytest.fixture
def page(scenes, tmp_path):
    if found_browser() is None:
        pytest.skip("no Chromium is installed: the page for curators is NOT tested in a browser")
    made(scenes, tmp_path / "kept")
    with browser(tmp_path / "profile") as opened:
        opened.downloads_to(tmp_path / "down")
        opened.open(tmp_path / "kept" / PAGE)
        yield opened


def saved(page, folder: Path) -> dict[str, Any]:
    """What the button saves."""
    path = folder / "down" / DECISIONS
    path.unlink(missing_ok=True)
    page.value("document.getElementById('save').click()")
    while not path.is_file():
        time.sleep(0.02)
    return json.loads(path.read_text())


DONE = "document.getElementById('done').textContent"
COUNTS = "document.getElementById('counts').textContent"


@pytest.mark.slow
def test_keys_decide_and_what_is_saved_is_taken(page, scenes, tmp_path):
    page.press("k", "d", "d", "ArrowLeft", "k", "ArrowRight", "j", "j", "d", "u", "p", "d")
    assert page.value(DONE) == "4 of 6 decided"
    content = saved(page, tmp_path)
    table, _ = read_keep(tmp_path / "kept")
    assert content["keep"] == digest_of_table(table)
    assert content["threshold"] is None
    (tmp_path / "kept" / DECISIONS).write_text(json.dumps(content))
    assert read_decisions(tmp_path / "kept", table).keep == {0: True, 1: False, 2: True, 4: False}
    Keep(str(tmp_path / "kept")).applied_to(scenes)


@pytest.mark.slow
def test_a_kind_alone_is_shown_and_decided_on(page, scenes, tmp_path):
    made(scenes, tmp_path / "kept", kinds=SUSPECTED)
    page.open(tmp_path / "kept" / PAGE)
    shown = "[...document.querySelectorAll('.case')].filter((e) => e.offsetParent).map((e) => e.dataset.number).join()"
    current = "document.querySelector('.case.current').dataset.number"
    page.press("ArrowRight", "ArrowRight")
    page.value("document.querySelector('[data-filter=detail]').click()")
    assert (page.value(shown), page.value(current)) == ("1,4", "1")
    page.press("d", "d")
    assert page.value(current) == "4"
    page.press("ArrowRight", "j", "ArrowLeft")
    assert page.value(current) == "1"
    page.value("document.querySelector('[data-filter=another]').click()")
    assert page.value(shown) == "0,2,5"
    page.press("u")  # what is taken back is of another kind, so all are shown again
    assert (page.value(shown), page.value(current)) == ("0,1,2,3,4,5", "4")
    assert page.value("document.querySelector('[data-filter=\"\"]').getAttribute('aria-pressed')") == "true"
    assert {one["row"]: one["decision"] for one in saved(page, tmp_path)["decisions"]} == {1: "drop"}


@pytest.mark.slow
def test_a_swap_is_saved_with_its_words_and_trained_on(page, scenes, tmp_path):
    page.press("s", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "s")
    content = saved(page, tmp_path)
    assert [one["decision"] for one in content["decisions"]] == ["swap", "swap"]
    (tmp_path / "kept" / DECISIONS).write_text(json.dumps(content))
    some = Keep(str(tmp_path / "kept")).applied_to(scenes)
    assert some.pair(0).captions == (scenes.pair(9).captions[0],)
    assert some.pair(1).captions == (scenes.pair(12).captions[3],)


@pytest.mark.slow
def test_the_handle_changes_the_counts_and_is_saved(page, tmp_path):
    table, _ = read_keep(tmp_path / "kept")
    page.value("document.getElementById('handle').focus()")
    page.press("ArrowLeft", "ArrowLeft", "ArrowUp")
    stay = int(kept_captions(table.right, "threshold", 0.49, 0.0).sum())
    assert f"At 0.49, {stay} captions stay and {len(table) - stay} are dropped" in page.value(COUNTS)
    assert page.value("document.getElementById('handle').getAttribute('aria-valuenow')") == "0.49"
    assert saved(page, tmp_path)["threshold"] == 0.49
    box = page.value(
        "(() => { const b = document.querySelector('#histogram svg').getBoundingClientRect();"
        " return [b.left, b.top, b.width, b.height]; })()"
    )
    at = box[1] + box[3] / 2
    page.drag((box[0] + 0.49 * box[2], at), (box[0] + 0.8 * box[2], at))
    assert "At 0.80" in page.value(COUNTS)
    page.value("document.getElementById('reset').click()")
    assert saved(page, tmp_path)["threshold"] is None


@pytest.mark.slow
def test_a_decision_by_hand_counts_whatever_the_handle_says(page, tmp_path):
    before = int(re.search(r", (\d+) captions stay", page.value(COUNTS))[1])
    page.press("k", "d")
    assert f", {before + 1} captions stay" in page.value(COUNTS)
    page.press("u", "u", "u")
    assert f", {before} captions stay" in page.value(COUNTS)
    assert page.value("document.getElementById('undo').disabled")


@pytest.mark.slow
def test_what_was_decided_is_there_again_after_a_reload(page, tmp_path):
    page.press("d", "k")
    page.open(tmp_path / "kept" / PAGE)
    assert page.value(DONE) == "2 of 6 decided"
    assert page.value("document.querySelector('.case').dataset.decision") == "drop"


SAID = "document.getElementById('said').textContent"


def decided(content: dict[str, Any]) -> dict[int, str]:
    return {one["row"]: one["decision"] for one in content["decisions"]}


@pytest.mark.slow
def test_decisions_of_the_file_since_are_merged_with_what_the_browser_remembers(page, scenes, tmp_path):
    page.press("d", "k")  # rows 0 and 1
    made(scenes, tmp_path / "kept", before=lambda table: held(table, {1: "drop", 200: "keep"}, 0.2345))
    page.open(tmp_path / "kept" / PAGE)
    assert page.value(SAID).startswith("Merged what this browser remembers with decisions.json")
    content = saved(page, tmp_path)
    assert decided(content) == {0: "drop", 1: "drop", 200: "keep"}
    assert content["threshold"] == 0.2345
    page.press("d")  # what is taken back stays so, though the file still holds it
    page.press("ArrowRight", "d")
    page.open(tmp_path / "kept" / PAGE)
    assert "Merged" not in page.value(SAID)
    assert decided(saved(page, tmp_path)) == {200: "keep"}
    assert saved(page, tmp_path)["threshold"] == 0.2345


@pytest.mark.slow
def test_what_was_saved_to_the_file_is_no_merge(page, scenes, tmp_path):
    page.press("d", "k")
    content = saved(page, tmp_path)
    made(scenes, tmp_path / "kept", before=lambda _: content)
    page.open(tmp_path / "kept" / PAGE)
    assert "Merged" not in page.value(SAID)
    assert saved(page, tmp_path) == content


@pytest.mark.slow
def test_without_local_storage_it_works_all_the_same(page, tmp_path):
    page.ask(
        "Page.addScriptToEvaluateOnNewDocument",
        source="Object.defineProperty(window, 'localStorage', {get() { throw new Error('forbidden'); }})",
    )
    page.open(tmp_path / "kept" / PAGE)
    page.press("k")
    assert [one["decision"] for one in saved(page, tmp_path)["decisions"]] == ["keep"]


@pytest.mark.slow
def test_buttons_focus_and_labels(page, tmp_path):
    page.value("document.querySelectorAll('.case')[2].querySelector('.drop').click()")
    assert (
        page.value("document.querySelectorAll('.case')[2].querySelector('.drop').getAttribute('aria-pressed')")
        == "true"
    )
    assert page.value("document.activeElement.dataset.number") == "3"
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") != "none" or page.value(
        "document.activeElement.classList.contains('current')"
    )
    names = page.value(
        "[...document.querySelectorAll('button, [tabindex], img')].filter((e) => !(e.getAttribute('aria-label')"
        " || e.getAttribute('alt') || e.textContent.trim())).length"
    )
    assert names == 0
    page.value("document.querySelector('[data-copy=\"1\"]').click()")
    content = saved(page, tmp_path)
    rows = [one["row"] for one in content["decisions"]]
    assert rows == [2, *range(155, 160)]  # all captions of the second copy
    assert {one["decision"] for one in content["decisions"]} == {"drop"}


@pytest.mark.slow
def test_no_caption_runs(evil, tmp_path):
    if found_browser() is None:
        pytest.skip("no Chromium is installed: the page for curators is NOT tested in a browser")
    made(evil, tmp_path)
    with browser(tmp_path / "profile") as opened:
        opened.open(tmp_path / PAGE)
        assert "broken" not in opened.value("document.title")
        assert opened.value("document.querySelector('.words').textContent").startswith("</script>")
        assert opened.value(DONE) == "0 of 6 decided"
