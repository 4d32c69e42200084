"""Folders of results: what is asked of one on a disk and of one in a store is answered alike."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import pytest

from equipoise.io.results_folder import StoreFolder, folder_of
from equipoise.io.resumable import claim
from equipoise.types import UserError

pytest.importorskip("fsspec")


@pytest.fixture(params=["disk", "store"])
def place(request, tmp_path):
    path = tmp_path / "results"
    return path if request.param == "disk" else StoreFolder(f"file://{path}")


def test_what_is_added_is_there_and_what_is_removed_is_not(place):
    folder = folder_of(place)
    assert folder.names() == set()
    assert not folder.has("a.json")
    claim(place, {"size": 3}, "note.json")
    with folder.adding("a.json") as path:
        path.with_name("b.json").write_text('{"b": 1}')
        path.write_text('{"a": 1}')
    assert folder.names() == {"a.json", "b.json", "note.json"}
    assert list(folder.tables(["b.json", "a.json"], "")) == [{"b": 1}, {"a": 1}]
    folder.mark(".a.1.tmp")
    assert folder.has(".a.1.tmp")
    with folder.only_writer():
        assert not folder.has(".a.1.tmp")
    folder.remove("b.json")
    folder.remove("b.json")
    assert folder.is_here()
    with folder.on_disk(["a.json"]) as disk:
        assert (disk / "a.json").read_text() == '{"a": 1}'
        (disk / "c.json").write_text("{}")
    assert folder.names() == {"a.json", "c.json", "note.json"}


def test_what_breaks_off_is_not_added_to_a_store(tmp_path):
    folder = StoreFolder(f"file://{tmp_path}")
    with suppress(KeyboardInterrupt), folder.adding("a.json") as path:
        path.write_text("{")
        raise KeyboardInterrupt
    assert folder.names() == set()


def test_a_folder_is_claimed_once(place, tmp_path):
    claim(place, {"size": 3}, "note.json")
    claim(place, {"size": 3}, "note.json")
    assert json.loads((tmp_path / "results" / "note.json").read_text()) == {"size": 3}
    with pytest.raises(UserError, match=r"other settings \(size; see .*results/note\.json\); choose another folder"):
        claim(place, {"size": 4}, "note.json")
    (tmp_path / "results" / "00000.tar").touch()
    with pytest.raises(UserError, match=r"holds 00000\.tar of other work, for there is no other\.json"):
        claim(place, {"size": 3}, "other.json")


def test_parts_of_an_address():
    folder = StoreFolder("file:///a/b/")
    assert str(folder) == "file:///a/b"
    assert str(folder / "c") == "file:///a/b/c"
    assert str(folder / "") == "file:///a/b"


@pytest.mark.parametrize("url", ["ftp://host/x", "S3://bucket/x", "s3:/bucket", "file://", "http://host/x", "pipe://x"])
def test_other_addresses(url):
    with pytest.raises(UserError, match="begins with s3://, gs://, file://"):
        StoreFolder(url)


def test_a_library_that_only_another_machine_lacks(tmp_path, monkeypatch):
    folder = StoreFolder(f"file://{tmp_path}")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UserError, match="this needs fsspec; install it with: pip install fsspec"):
        folder.names()
