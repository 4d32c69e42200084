"""The site as a browser shows it: nothing is wider than a phone, and both themes can be read."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from headless_browser import Page, browser, found_browser

ROOT = Path(__file__).parents[1]
OF_SPHINX = ("search", "genindex", "py-modindex")  # pages that it writes itself, over any of ours
PAGES = ("index", "quickstart", "tutorials/own-loss", "reference/recipe-keys", "claims", "losses")
PHONE = 390
READABLE = 4.5  # WCAG 2.2, 1.4.3: contrast of text, AA

# Text that is cut off: what stands out of the window and not in a box that scrolls by itself
OUTSIDE = """[...document.querySelectorAll('.content *')]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.table-wrapper, .highlight'))
    .map(one => one.tagName + ' ' + one.textContent.trim().slice(0, 60)).slice(0, 5)"""

# Texts whose colour is too close to what is behind them, each kind once
FAINT = """(() => {
    const part = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    const behind = one => {
        for (; one; one = one.parentElement) {
            const colour = numbers(getComputedStyle(one).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const found = {};
    for (const one of document.querySelectorAll('.content *, .sidebar-tree *')) {
        if (![...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
        if (!one.checkVisibility({visibilityProperty: true}) || one.matches('.headerlink')) continue;
        const [a, b] = [light(numbers(getComputedStyle(one).color)), light(behind(one))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < READABLE) found[`${one.tagName}.${one.className}`] = contrast.toFixed(2);
    }
    return found;
})()""".replace("READABLE", str(READABLE))


def test_no_page_has_the_name_of_one_that_sphinx_writes() -> None:
    assert [name for name in OF_SPHINX if (ROOT / "docs" / f"{name}.md").exists()] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not found_browser():
        pytest.skip("no Chromium: how the site LOOKS is NOT tested")
    if not all(importlib.util.find_spec(name) for name in ("sphinx", "furo", "myst_parser", "sphinx_copybutton")):
        pytest.skip("docs/requirements.txt is not installed: how the site LOOKS is NOT tested")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "docs", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return out


@pytest.fixture(scope="module")
def page(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def shown(page: Page, path: Path, expression: str, *, width: int, dark: bool = False) -> Any:
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    page.ask("Emulation.setEmulatedMedia", features=scheme)
    page.ask("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=False)
    page.open(path)
    return page.value(expression)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(name: str, site: Path, page: Page) -> None:
    path = site / f"{name}.html"
    assert shown(page, path, OUTSIDE, width=PHONE) == []
    assert page.value("document.documentElement.scrollWidth") <= PHONE
    assert page.value("document.querySelectorAll('.content h1').length") == 1


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read(name: str, dark: bool, site: Path, page: Page) -> None:
    assert shown(page, site / f"{name}.html", FAINT, width=1280, dark=dark) == {}
    background = page.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
    assert (int(background) < 64) == dark


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claims", "losses", "reference/recipe-keys"])
def test_rows_of_words_stand_below_each_other_on_a_phone(name: str, site: Path, page: Page) -> None:
    """Those of figures keep their columns, and scroll."""
    shown(page, site / f"{name}.html", "0", width=PHONE)
    tables = """(stacked) => [...document.querySelectorAll('.table-wrapper')]
        .filter(one => (getComputedStyle(one.querySelector('td')).display !== 'table-cell') === stacked)"""
    assert page.value(f"({tables})(true).filter(one => one.scrollWidth > one.clientWidth + 1).length") == 0
    assert page.value(f"({tables})(true).length") > 0
    figures = page.value(f"({tables})(false).every(one => one.querySelector('thead').checkVisibility())")
    assert figures
    assert page.value(f"({tables})(true).every(one => !one.textContent.includes('lowest–highest'))")
