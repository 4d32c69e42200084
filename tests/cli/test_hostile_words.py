"""Words of the command line that nobody types by intent: one sentence each, at once, and nothing written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from equipoise.cli import main


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    try:
        code = main([*map(str, words)])
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("equipoise: ")
    assert err.count("\n") == 1, err
    assert err.rstrip("\n").isprintable()
    return err


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("#x=1", "not of the form key=value"),
        ('data.name="equipoise.types:Batch"', "does not hold settings"),
        (f"seed={'[' * 600}{']' * 600}", "deep"),
        (f"{'.'.join('a' * 50_000)}=1", "deep"),
        ("name=a\nb", "plain folder name"),
        ("name=\x1b[31mred", "plain folder name"),
        ("na\nme=3", "not of the form key=value"),
        ("data.name=a\nb", "unknown choice"),
        ("image.name='''a\nb'''", "unknown choice"),
        ("training.optimizer=a\n\x07b", "optimizer"),
        ("name=\udcff", "not UTF-8"),
    ],
)
def test_settings(capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, "show", "demo", "--set", setting)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ("scenes", "preview", "--size", "99999999999"),
        ("scenes", "preview", "--size", "2147483647"),
        ("scenes", "preview", "--count", "99999", "--size", "9999"),
        ("scenes", "preview", "--count", "9" * 5000),
        ("scenes", "preview", "--count", "9" * 400),
        ("lab", "cost", "demo", "--class-tokens", "2147483647"),
        ("lab", "cost", "demo", "--batch-size", "2147483647"),
        ("lab", "similarities", "nowhere", "--bins", "2147483647"),
        ("simat", "nowhere", "--sources", "2147483647"),
        ("vqa", "nowhere", "--hidden", "2147483647"),
        ("scenes", "write", "shards", "--size", "2147483647"),
        ("lab", "landscape", "nowhere", "--reach", "nan"),
        ("lab", "landscape", "nowhere", "--reach", "1e300"),
        ("lab", "similarities", "nowhere", "--seed", "-1"),
        ("lab", "similarities", "nowhere", "--seed", str(2**63)),
        ("scenes", "preview", "--split", "a\nb"),
    ],
)
def test_numbers(capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    refused(capsys, *words)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "text",
    [
        f"a = {'[' * 400}{']' * 400}",
        f"{'.'.join(['a'] * 400)} = 1",
        f"{'.'.join(['a'] * 100_000)} = 1",
        ".".join(f"'a{n}'.b" for n in range(20_000)) + " = 1",
        f"[{'.'.join(['a'] * 100_000)}]",
    ],
)
def test_deep_recipes(capsys, tmp_path: Path, text: str) -> None:
    recipe = tmp_path / "deep.toml"
    recipe.write_text(text)
    started = time.process_time()
    assert "deep" in refused(capsys, "show", recipe)
    assert time.process_time() - started < 10  # of this process alone, so the load of the machine does not count


def test_a_value_with_many_dots_is_no_deep_key(capsys, tmp_path: Path) -> None:
    recipe = tmp_path / "dots.toml"
    recipe.write_text(f'extends = "demo"\n# {" ".join(["v1.2."] * 300)}\n[keep]\nfolder = "{"a.b/" * 200}"\n')
    assert main(["show", str(recipe)]) == 0


def test_recipes_that_are_no_files(capsys, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    assert "pipe" in refused(capsys, "show", tmp_path / "pipe.toml")
    assert "larger than" in refused(capsys, "show", "/dev/zero")


def test_a_recipe_from_the_shell_is_read(capsys) -> None:
    """As `show <(command)` gives it."""
    reader, writer = os.pipe()
    os.write(writer, b'extends = "demo"\nseed = 7\n')
    os.close(writer)
    try:
        assert main(["show", f"/dev/fd/{reader}"]) == 0
    finally:
        os.close(reader)
    assert "seed = 7" in capsys.readouterr().out
