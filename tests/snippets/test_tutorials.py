"""Every tutorial, typed from its first line to its last in an empty folder: commands and Python as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from snippets.served import serve

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
FENCE = re.compile(r"(^[^\n]*\n)?\n```(\w*)\n(.*?)^```", re.M | re.S)
INTO_FILE = re.compile(r"this into `(\w+\.py)`")
NOT_BETTER = 3  # the status of a fine-tuning that found nothing better than the start
LIMIT = 1200  # seconds for one command, on a machine that does much else


@dataclass(frozen=True)
class Typed:
    text: str
    language: str
    file: str = ""  # that the text is put into


def typed(page: Path) -> Iterator[Typed]:
    for before, language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in ("", "python"):
            named = INTO_FILE.search(before)
            yield Typed(text, language, named[1] if named else "")


def environment(folder: Path, words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Of a command, with the variables written before it."""
    known = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    while "=" in words[0]:
        name, _, value = words[0].partition("=")
        known[name] = os.pathsep.join([str((folder / value).resolve()), str(ROOT)]) if name == "PYTHONPATH" else value
        words = words[1:]
    return known, words


def command(folder: Path, line: str) -> None:
    known, words = environment(folder, shlex.split(line))
    assert words[0] == "equipoise", line
    words = [sys.executable, "-m", *words]
    if words[3] == "serve":
        serve(folder, words, known)
        return
    done = subprocess.run(words, cwd=folder, env=known, capture_output=True, text=True, timeout=LIMIT, check=False)
    allowed = (0, NOT_BETTER) if words[3] == "finetune" else (0,)
    assert done.returncode in allowed, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_has_something_to_type(page: Path) -> None:
    languages = [one.language for one in typed(page)]
    assert {"", "python"} <= set(languages)
    assert all(line.split()[0].endswith(("equipoise", "=.")) for one in typed(page) if not one.language
               for line in one.text.splitlines())  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_can_be_typed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for one in typed(page):
        if one.file:
            (tmp_path / one.file).write_text(one.text, encoding="utf-8")
        elif one.language:
            exec(compile(one.text, page.name, "exec"), names)
        else:
            for line in one.text.splitlines():
                command(tmp_path, line)
