"""The ways to decide by hand that a run names: a page, a service, and none where nothing shows the captions."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.data.keep.settings import Keep
from equipoise.models.model import Model
from equipoise.reports.curate_page import PAGE
from equipoise.workflows.clean.by_hand import by_hand
from equipoise.workflows.load import load


@pytest.fixture(scope="module")
def model(finished_run: Path) -> Model:
    return load(finished_run)


def test_the_run_s_own_page_and_the_service(tmp_path, model):
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / PAGE).touch()
    ways = by_hand(Keep(str(tmp_path / "clean")), tmp_path, model)
    assert ways.link == f"clean/{PAGE}"
    assert f"open {tmp_path}/clean/{PAGE} or run equipoise serve {tmp_path}; " in ways.sentence
    assert ways.sentence.endswith(f"with --set keep.folder={tmp_path}/clean")


def test_a_keep_file_elsewhere_is_no_link_and_the_service_is_told_where(tmp_path, model):
    (tmp_path / PAGE).touch()
    ways = by_hand(Keep(str(tmp_path)), tmp_path / "run", model)
    assert ways.link == ""
    assert ways.serve == f"equipoise serve {tmp_path / 'run'} --suspects {tmp_path}"


def test_without_a_page_the_service_shows_them(tmp_path, model):
    ways = by_hand(Keep(str(tmp_path / "clean")), tmp_path, model)
    assert PAGE not in ways.sentence
    assert ways.serve == f"equipoise serve {tmp_path}"


def test_nothing_was_cleaned(tmp_path, model):
    assert by_hand(Keep(), tmp_path, model) is None
