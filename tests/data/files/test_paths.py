"""Lists, braces, stars, folders and URLs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from equipoise.data.braces import expand_braces
from equipoise.data.files.paths import find_files
from equipoise.settings.trust import trusting
from equipoise.types import UserError


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a.tar", ["a.tar"]),
        ("a-{08..11}.tar", ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]),
        ("{x,y}/{0..1}.tar", ["x/0.tar", "x/1.tar", "y/0.tar", "y/1.tar"]),
        ("pipe:cat {a,b}.tar", ["pipe:cat {a,b}.tar"]),
    ],
)
def test_braces(pattern, expected):
    assert list(expand_braces(pattern)) == expected


def test_braces_are_webdatasets():
    shardlists = pytest.importorskip("webdataset.shardlists")
    for pattern in ("laion/{00000..00012}.tar", "{a,b}-{0..3}.tar", "plain.tar"):
        assert list(expand_braces(pattern)) == shardlists.expand_urls(pattern)


@pytest.mark.parametrize("pattern", ["{9..3}.tar", "{0..99999999999}.tar"])
def test_ranges_without_sense(pattern):
    with pytest.raises(UserError, match="count upwards"):
        list(expand_braces(pattern))


def test_files_come_in_order_and_a_folder_stands_for_its_shards(tmp_path):
    for name in ("b.tar", "a.tar", "c.txt", "sub/d.tar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    root = str(tmp_path)

    def names(*patterns: str) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in find_files(patterns, root)]

    assert names("*.tar") == ["a.tar", "b.tar"]
    assert names("b.tar", "", "{a,b}.tar") == ["b.tar", "a.tar", "b.tar"]
    assert names("sub") == ["sub/d.tar"]
    assert find_files(str(tmp_path / "a.tar")) == [tmp_path / "a.tar"]


def test_a_missing_file_is_named_with_its_pattern(tmp_path):
    (tmp_path / "a-0.tar").touch()
    with pytest.raises(UserError, match=r'a-1\.tar: there is no such file \(from "a-\{0\.\.1\}\.tar"\)'):
        find_files("a-{0..1}.tar", str(tmp_path))
    with pytest.raises(UserError, match=r"x\*\.tar: there is no such file"):
        find_files("x*.tar", str(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty: there is no file in this folder that ends in \.tar"):
        find_files("empty", str(tmp_path))


def test_urls_are_copied_once(tmp_path):
    pytest.importorskip("webdataset")
    source = tmp_path / "there.tar"
    source.write_bytes(b"content")
    cache = str(tmp_path / "cache")
    (first,) = find_files(f"file:{source}", cache=cache)
    command = f"pipe:cat {source}"
    with trusting(commands=[command]):
        (piped,) = find_files(command, cache=cache)
    assert first.parent == piped.parent == Path(cache)
    assert first.read_bytes() == piped.read_bytes() == b"content"
    source.unlink()
    assert find_files(f"file:{source}", cache=cache) == [first]


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_object_stores_are_read_by_fsspec(tmp_path, monkeypatch, scheme):
    """A store in memory in place of the library that would ask the network."""
    registry = pytest.importorskip("fsspec.registry")
    from fsspec.implementations.memory import MemoryFileSystem

    class Store(MemoryFileSystem):
        protocol, store, pseudo_dirs = scheme, {}, [""]
        _strip_protocol = classmethod(lambda cls, path: "/" + path.removeprefix(f"{scheme}://").lstrip("/"))

    monkeypatch.setitem(registry._registry, scheme, Store)
    Store().pipe_file("/bucket/a-0.tar", b"zero")
    Store().pipe_file("/bucket/a-1.tar", b"one")
    found = find_files(f"{scheme}://bucket/a-{{0..1}}.tar", cache=str(tmp_path))
    assert [path.read_bytes() for path in found] == [b"zero", b"one"]
    with pytest.raises(UserError, match=rf"{scheme}://bucket/a-2\.tar: this cannot be fetched"):
        find_files(f"{scheme}://bucket/a-2.tar", cache=str(tmp_path))


@pytest.mark.parametrize(("scheme", "library"), [("s3", "s3fs"), ("gs", "gcsfs")])
def test_a_store_whose_library_is_not_there(tmp_path, monkeypatch, scheme, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UserError, match=f"this needs {library}; install it with: pip install {library}"):
        find_files(f"{scheme}://bucket/x.tar", cache=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_urls_that_cannot_be_fetched(tmp_path):
    pytest.importorskip("webdataset")
    with pytest.raises(UserError, match=r"file:/nowhere\.tar: this is a URL"):
        find_files("file:/nowhere.tar")
    for url in ("file:/nowhere.tar", "pipe:exit 3"):
        with pytest.raises(UserError, match=f"{url.split(':')[0]}:.*cannot be fetched"), trusting(commands=[url]):
            find_files(url, cache=str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url",
    [
        "strange://x.tar",
        "http://example.org/x.tar",
        "ftp://example.org/x.tar",
        "HTTPS://example.org/x.tar",
        "hf://datasets/x.tar",
        "{pipe,pipe}:touch ran",
        "PIPE:touch ran",
        "pipe:touch ran",
        "https://example.org/';touch ran;'x.tar",
        "https://example.org/`touch ran`.tar",
        "s3://bucket/x.tar | touch ran",
        "gs://bucket/x\n.tar",
    ],
)
def test_what_must_not_be_opened_is_refused_in_one_line(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refusal:
        find_files(url, cache="cache")
    assert "\n" not in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_a_command_runs_only_where_that_very_command_is_trusted(tmp_path, monkeypatch):
    pytest.importorskip("webdataset")
    monkeypatch.chdir(tmp_path)
    with trusting(commands=["pipe:echo one"], pipes=True):
        (copy,) = find_files("pipe:echo one", cache="cache")
        assert copy.read_text() == "one\n"
        with pytest.raises(UserError, match="--allow-pipe"):
            find_files("pipe:echo two", cache="cache")
    with pytest.raises(UserError, match="--allow-pipe"):
        find_files("pipe:echo one", cache="cache")
