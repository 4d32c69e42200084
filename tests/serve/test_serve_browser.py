"""The page in a real browser, all by clicking and typing: search, drop a picture, see why, judge a caption."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from headless_browser import found_browser
from serve.served import keep_folder, png
from serve.test_serve_process import serving

from equipoise.data.keep.decisions import DECISIONS, read_decisions
from equipoise.data.keep.file import read_keep
from equipoise.index.making import Making
from equipoise.workflows.index.build import build_index
from equipoise.workflows.index.embedding import Wanted

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the page is NOT tested")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(found_browser() is None, reason="no Chromium is installed: the page is NOT tested"),
]
DROP = """([data, name]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes], name, { type: name.endsWith("png") ? "image/png" : "text/plain" }));
  const event = { dataTransfer: files, bubbles: true, cancelable: true };
  for (const kind of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(kind, event));
}"""
PASTE = """(data) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes], "a.png", { type: "image/png" }));
  document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: files, bubbles: true, cancelable: true }));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as run:
        chromium = run.chromium.launch(executable_path=found_browser(), args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def suspects(finished_run, tmp_path_factory) -> Path:
    return keep_folder(finished_run, tmp_path_factory.mktemp("cleaned") / "clean")


@pytest.fixture(scope="module")
def address(finished_run, fdt_run, suspects) -> Iterator[str]:
    words = (str(finished_run), "--beside", str(fdt_run), "--suspects", str(suspects))
    with serving(*words) as (address, _):
        yield address


@pytest.fixture
def page(browser, address) -> Iterator[Any]:
    yield from opened(browser, address)


def opened(browser: Any, address: str, **settings: Any) -> Iterator[Any]:
    """A page that must say nothing wrong in its console, ask nothing of anybody else, and fit its window."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, **settings)
    page, wrong, asked = context.new_page(), [], []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(60_000)
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    yield page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
    assert not [line for line in wrong if "status of 4" not in line]  # refusals that a test asks for
    base = address.partition("#")[0]
    assert not [url for url in asked if not url.startswith((base, "blob:", "data:"))]


def until(page: Any, expression: str) -> None:
    """Wait for an expression to be true, from here: the page's policy forbids what playwright would run in it."""
    end = time.monotonic() + 60
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(30)


def searched(page: Any) -> None:
    until(page, "document.getElementById('said').textContent.startsWith('The ')")


def test_search_by_text_shows_pictures_of_both_models_with_scores(page):
    page.fill("#text", "a red star")
    page.click("#go")
    searched(page)
    assert page.locator(".sides h2").count() == 2
    assert page.locator(".sides .hit").count() == 32
    assert page.locator(".score").first.inner_text()
    until(page, "[...document.querySelectorAll('.hit img')].some((img) => img.naturalWidth > 0)")
    page.locator("text=More like this").first.click()
    until(page, "document.getElementById('said').textContent.includes('the picture')")
    assert page.locator("#given").is_visible()


def test_an_example_is_searched_for_with_one_click_and_something_is_left_out(page):
    page.locator("#examples button").first.click()
    searched(page)
    page.click("#leave-out")
    page.fill("#without", "red")
    page.press("#without", "Enter")
    until(page, "document.getElementById('said').textContent.includes('− “red”')")


def test_a_picture_that_is_dropped_or_pasted_is_searched_for(page):
    data = base64.b64encode(png()).decode()
    page.evaluate(DROP, [data, "a.png"])
    searched(page)
    assert "the picture" in page.inner_text("#said")
    assert page.evaluate("document.getElementById('given-picture').naturalWidth") > 0
    page.click("#forget")
    assert page.locator("#given").is_hidden()
    page.evaluate(PASTE, data)
    page.locator("#given").wait_for()
    page.evaluate(DROP, [base64.b64encode(b"words").decode(), "a.txt"])
    until(page, "document.getElementById('trouble').textContent.includes('no picture')")


def test_pointing_at_a_picture_shows_why_it_was_found(page):
    page.fill("#text", "a red star")
    page.press("#text", "Enter")
    searched(page)
    page.locator(".hit .frame").first.hover()
    page.wait_for_selector(".hit.why")
    words = [word.inner_text() for word in page.locator(".hit.why .word").all()]
    assert words == ["a", "red", "star"]
    heat = "(canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((x) => x > 0)"
    assert page.locator(".hit.why canvas").first.evaluate(heat)
    page.mouse.move(5, 5)
    page.wait_for_selector(".hit.why", state="detached")


def test_pictures_without_captions_promise_no_reason_where_nothing_was_written(browser, finished_run, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, colour in enumerate(("red", "green", "blue")):
        (folder / f"{number}.png").write_bytes(png(colour=colour))
    build_index(Wanted(finished_run, str(folder)), tmp_path / "index", "", Making())
    with serving(str(finished_run), "--index", str(tmp_path / "index")) as (address, _):
        for page in opened(browser, address):
            page.fill("#text", "a red star")
            page.click("#go")
            searched(page)
            assert "to see why" in page.inner_text("#said")
            page.locator("text=More like this").first.click()
            until(page, "document.getElementById('said').textContent.includes('the picture')")
            assert "to see why" not in page.inner_text("#said")
            assert page.locator(".hit").count() == 3


def test_a_picture_is_named(page):
    page.fill("#text", "a fish")
    page.click("#go")
    searched(page)
    page.locator("text=Name it").first.click()
    page.fill("#classes", "fish\nstar, tree")
    page.click("text=Which one?")
    page.wait_for_selector(".guess")
    assert {one.inner_text() for one in page.locator(".guess b").all()} == {"fish", "star", "tree"}


def test_captions_are_judged_by_mouse_and_by_keyboard(page, suspects):
    (suspects / DECISIONS).unlink(missing_ok=True)
    page.click("#tab-judge")
    page.wait_for_selector(".case.current")
    page.keyboard.press("k")  # the keys work from the start
    page.wait_for_selector(".case[data-decision=keep]")
    page.keyboard.press("u")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("u")
    page.wait_for_selector(".case[data-decision=keep]", state="detached")
    page.locator(".case").nth(0).locator("[data-verb=keep]").click()
    page.wait_for_selector(".case[data-decision=keep]")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("d")
    page.wait_for_selector(".case[data-decision=drop]")
    table, _ = read_keep(suspects)
    assert sorted(read_decisions(suspects, table).keep.values()) == [False, True]
    page.locator(".case").nth(0).locator("[data-verb=keep]").click()
    page.wait_for_selector(".case[data-decision=keep]", state="detached")
    assert list(read_decisions(suspects, table).keep.values()) == [False]


def test_where_one_may_only_look_nothing_can_be_decided(browser, finished_run, suspects):
    (suspects / DECISIONS).unlink(missing_ok=True)
    with serving(str(finished_run), "--suspects", str(suspects), "--read-only") as (address, _):
        for page in opened(browser, address):
            page.click("#tab-judge")
            page.wait_for_selector(".case.current")
            assert page.locator(".case [data-verb]:enabled").count() == 0
            assert "looking alone" in page.inner_text("#judge-place")
            page.keyboard.press("k")
            page.wait_for_timeout(300)
            assert page.locator(".case[data-decision=keep]").count() == 0
    assert not (suspects / DECISIONS).exists()


def test_a_keyboard_alone_is_enough(page):
    page.keyboard.press("Escape")
    page.locator("#tab-search").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#name").is_visible()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.type("a blue fish")
    page.keyboard.press("Enter")
    searched(page)
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "frame":
            break
    page.wait_for_selector(".hit.why")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_tells_a_tap_from_a_mouse(browser, address, scheme):
    for page in opened(browser, address, color_scheme=scheme, has_touch=True):
        page.set_viewport_size({"width": 360, "height": 740})
        page.fill("#text", "a tree")
        page.tap("#go")
        searched(page)
        page.locator(".hit .frame").first.tap()
        page.wait_for_selector(".hit.why")
        page.locator(".hit .frame").first.tap()
        page.wait_for_selector(".hit.why", state="detached")
        for tab in ("name", "judge", "search"):
            page.tap(f"#tab-{tab}")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab


def test_the_token_in_the_address_opens_the_page_and_disappears(browser, finished_run, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-of-some-length")
    with serving(str(finished_run), "--token-file", str(token)) as (address, _):
        assert address.endswith("#token=a-token-of-some-length")
        for page in opened(browser, address):
            assert "token" not in page.url
            until(page, "[...document.querySelectorAll('.hit img')].some((img) => img.naturalWidth > 0)")


def test_the_code_book_is_browsed(browser, fdt_run):
    with serving(str(fdt_run)) as (address, _):
        for page in opened(browser, address):
            page.click("#tab-codes")
            page.wait_for_selector(".code")
            page.fill("#code-word", "red")
            page.press("#code-word", "Enter")
            until(page, "document.getElementById('codes-said').textContent.includes('“red”')")
