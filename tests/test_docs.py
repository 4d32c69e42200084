"""README and docs speak of what is there: choices, folders, files, recipes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from equipoise.claims.rule import NOT_RUN
from equipoise.data import SOURCES
from equipoise.encoders import IMAGE_ENCODERS, TEXT_ENCODERS
from equipoise.finetuning.methods import METHODS
from equipoise.forms import FORMS
from equipoise.objectives import OBJECTIVES
from equipoise.readouts import READOUTS
from equipoise.settings.recipe import builtin_recipes
from equipoise.spaces import SPACES
from equipoise.targets import TARGETS
from equipoise.workflows.claims.listing import judgements

ROOT = Path(__file__).parents[1]
README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
HISTORY = {"LOG.md"}  # speaks of files as they were called then
RECIPES = builtin_recipes()
CHOICES: dict[str, Mapping[str, Any]] = {
    "data": SOURCES,
    "image encoder": IMAGE_ENCODERS,
    "text encoder": TEXT_ENCODERS,
    "readout": READOUTS,
    "space": SPACES,
    "target": TARGETS,
    "form": FORMS,
    "objective": OBJECTIVES,
    "fine-tuning": METHODS,
}
QUOTED = re.compile(
    r"\[`([\w-]+)`\]\((?:claims\.md)?#\1\)\s+(?:is\s+)?(holds\s+in\s+part|holds|does\s+not\s+hold|undecided|not\s+testable)"
)


def choices_table() -> dict[str, set[str]]:
    rows = [line.strip("|").split("|") for line in (DOCS / "choices.md").read_text().splitlines() if line[:2] == "| "]
    return {row[0].strip(): set(re.findall("`([^`]+)`", row[3])) for row in rows[1:]}


@pytest.mark.parametrize("choice", CHOICES)
def test_the_table_of_choices_names_what_the_dict_holds(choice: str) -> None:
    assert choices_table()[choice] == set(CHOICES[choice])


def test_the_tree_of_the_house_has_a_line_for_every_folder() -> None:
    tree = (DOCS / "architecture.md").read_text().partition("## The tree")[2].partition("\n## ")[0]
    named = set(re.findall(r"^  (\w+(?:/|\.py))", tree, re.M))
    folders = {f"{path.name}/" for path in (ROOT / "equipoise").iterdir() if path.is_dir() and path.name[0] != "_"}
    assert named - {f"{path.name}" for path in (ROOT / "equipoise").glob("*.py")} == folders


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in HISTORY], ids=lambda page: page.name)
def test_files_and_pages_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    for name in re.findall(r"`((?:[\w-]+/)+[\w-]+\.py)`", text):
        here = any((ROOT / before / name).is_file() for before in ("", "equipoise"))
        assert here or "NAME" in name or "hello" in name, f"{page.name}: {name}"
    for link in re.findall(r"\]\(([\w./-]+\.(?:md|png))", text):
        assert (page.parent / link).is_file(), f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_recipes_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"equipoise (?:train|show|cite) ([a-z][\w-]*)(?= |$|`)", page.read_text(), re.M):
        assert name in RECIPES, f"{page.name}: {name}"


def test_verdicts_that_pages_quote_are_those_of_the_stored_results() -> None:
    """The table of former verdicts in claims.md, and what pages say beside a method."""
    found = {name: verdict.word.removesuffix(" here") for name, (_, _, verdict) in judgements().items()}
    quoted = [(page.name, *quote) for page in PAGES if page.name not in HISTORY for quote in quotes(page)]
    assert len(quoted) > 30
    assert [one for one in quoted if found.get(one[1]) != one[2]] == []


def test_the_page_of_claims_says_how_many_wait_for_their_run() -> None:
    words = [verdict.word for _, _, verdict in judgements().values()]
    text = " ".join((DOCS / "claims.md").read_text().split())
    waiting = words.count(NOT_RUN)
    told = f"of which {waiting} are not run yet" if waiting else "and all have been run"
    assert f"There are {len(words)} claims, {told}" in text


def quotes(page: Path) -> list[tuple[str, str]]:
    return [(name, " ".join(word.split())) for name, word in QUOTED.findall(page.read_text())]
