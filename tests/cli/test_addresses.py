"""Addresses on the command line: where a path on a disk is wanted, and where a store will do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from equipoise.cli import main
from equipoise.cli.paths import folder_or_store, local_path


@pytest.mark.parametrize(
    "words",
    [
        ["clean", "demo", "--out", "s3://bucket/cleaned"],
        ["index", "runs/demo", "demo", "--out", "gs://bucket/index"],
        ["audit", "demo", "--out", "file:///tmp/audit"],
    ],
)
def test_an_address_is_no_folder(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert f"{words[-1]} is an address" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["embed", "runs/demo", "demo", "--out", "https://host/features"], "begins with s3://, gs://, file://"),
        (["regions", "photos", "--out", "s3://"], "begins with s3://, gs://, file://"),
        (["data", "prepare", "photos", "gs://bucket/shards"], "pip install gcsfs"),
    ],
)
def test_stores_that_are_unknown_or_lack_their_library(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # as where it is not installed
    with pytest.raises(SystemExit, match="2"):
        main(words)
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["runs/demo", "/a/b", "C:/a", "a:b", "..", "s3:/bucket"])
def test_paths_are_left_as_they_are(text):
    assert local_path(text) == folder_or_store(text) == Path(text)
