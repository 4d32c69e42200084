"""Paths on the command line are paths on a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.cli import main
from equipoise.cli.paths import local_path


@pytest.mark.parametrize(
    "words",
    [
        ["clean", "demo", "--out", "s3://bucket/cleaned"],
        ["data", "prepare", "photos", "gs://bucket/prepared"],
        ["embed", "runs/demo", "demo", "--out", "https://host/features"],
        ["audit", "demo", "--out", "file:///tmp/audit"],
    ],
)
def test_an_address_is_no_folder(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert f"{words[-1]} is an address" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["runs/demo", "/a/b", "C:/a", "a:b", "..", "s3:/bucket"])
def test_paths_are_left_as_they_are(text):
    assert local_path(text) == Path(text)
