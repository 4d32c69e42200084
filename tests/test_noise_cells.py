"""Cells of the noise bench as a file: the same tables as from the folder, and those of docs/clean-results.md."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path

import noise
import noise_cells
import pytest
from cells import Row, cell_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "clean-results.md"
MARK = re.compile(r"<!-- noise cells: (.+) -->\n\n?((?:\|.*\n)+)")
ROWS = {"no noise": 0.5, "40%: all pairs": 0.2, "40%: kept": 0.3, "40%: weighted": 0.35, "40%: truly right pairs": 0.4}
TABLES = ("--against", "kept", "--judged")


def cell(name: str, seed: int, recall: float) -> dict:
    """As a run writes it."""
    rule = "weights" if "weighted" in name else "threshold"
    note = {
        "version": 1, "noise": 0.35 + 0.01 * seed, "interval": [0.3, 0.4], "rule": {"rule": rule, "threshold": 0.5},
        "truth": {"wrong": 0.4, "wrong_among_kept": 0.07, "right_dropped": 0.02, "auroc_of_captions": 0.95},
        "recipe": {"data": {"train": "/home/somebody/train.npz"}}, "kinds": {"another": 3},
    }  # fmt: skip
    judged = {"judged": note, "seconds": {"judging": 20.4, "training": 9.0}}
    told = judged if "kept" in name or "weighted" in name else {"judged": {}, "seconds": {"judging": 0, "training": 9}}
    found = {"retrieval/mean_recall": recall, "retrieval/image_to_text_R@1": recall, "retrieval/text_to_image_R@1": 0.1}
    settings = ["shuffle.share=0.4", "data.train=/home/somebody/train.npz", f"seed={seed}"]
    about = {"recipe": "features", "settings": settings, "commit": "c0ffee", "device": "a GPU"}
    return {"name": name, "seed": seed, **about, **told, "found": found}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "cells"
    place.mkdir()
    for name, recall in ROWS.items():
        for seed in range(3 if name != "40%: weighted" else 2):
            (place / cell_name(name, seed)).write_text(json.dumps(cell(name, seed, recall + 0.01 * seed)))
    return place


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> str:
    monkeypatch.setattr("sys.argv", ["noise.py", *map(str, words)])
    capsys.readouterr()
    noise.main()
    return capsys.readouterr().out


def differing(page: str, monkeypatch, capsys) -> tuple[list[str], list[str]]:
    """The commands of a page that print another table than the one below them, and all words of its commands."""
    wrong, words = [], []
    for command, shown in MARK.findall(page):
        words += shlex.split(command)
        tables = printed(monkeypatch, capsys, *shlex.split(command)).replace("*", "").strip().split("\n\n")
        wrong += [command] if shown.replace("*", "").strip() not in tables else []
    return wrong, words


def test_packed_cells_give_the_tables_of_the_folder(folder, tmp_path, monkeypatch, capsys) -> None:
    file = tmp_path / "noise" / "tiny.jsonl.gz"
    given = ("features", "--out", folder, "--shares", "0.4", "--report", *TABLES)
    of_folder = printed(monkeypatch, capsys, *given)
    assert printed(monkeypatch, capsys, *given, "--keep", file) == f"14 cells are in {file}\n{of_folder}"
    assert printed(monkeypatch, capsys, "features", "--cells", file, *TABLES) == of_folder
    one = printed(monkeypatch, capsys, "features", "--cells", file, "--rows", "40%: kept")
    assert "| 40%: kept | 31.0 (30.0–32.0) | 10.0 (10.0–10.0) | 31.0 (30.0–32.0) |" in one
    assert "40%: all pairs" not in one
    assert "| 40%: kept | 36.0 (35.0–37.0) | 0.950 (0.950–0.950) | 7.0 (7.0–7.0) | 2.0 (2.0–2.0) | 20 (20–20) |" in (
        of_folder
    )
    assert "| weighted | 35.5 (mean of 2) |" in of_folder
    text = gzip.decompress(file.read_bytes()).decode()
    assert "data.train=train.npz" in text
    assert "somebody" not in text
    assert "c0ffee" in text


def test_a_cell_that_is_there_already_is_replaced_and_bytes_are_the_same(folder, tmp_path) -> None:
    first, again = tmp_path / "first.jsonl.gz", tmp_path / "again.jsonl.gz"
    cells = noise_cells.gathered([folder], ())
    assert noise_cells.pack(cells, first) == 14
    late = {key: cells[key] for key in sorted(cells, reverse=True)}
    some = {key: late.pop(key) for key in list(late)[:5]}
    assert [noise_cells.pack(part, again) for part in (late, some)] == [9, 14]
    assert again.read_bytes() == first.read_bytes()

    anew = {("40%: kept", 0): cells["40%: kept", 0] | {"found": {"retrieval/mean_recall": 0.9}}}
    assert noise_cells.pack(anew, first) == 14
    assert noise_cells.found_in(noise_cells.packed(first), [Row("40%: kept", "features")])["40%: kept"][0] == {
        "retrieval/mean_recall": 0.9, "seed": 0,
    }  # fmt: skip
    other = {("40%: kept", 0): cells["40%: kept", 0] | {"settings": ["shuffle.share=0.5"]}}
    with pytest.raises(SystemExit, match="has the row 40%: kept, seed 0, with other settings; give a file of its own"):
        noise_cells.pack(other, first)


def test_rows_of_one_seed_are_judged_on_features_of_one_kind(folder, tmp_path) -> None:
    file, plain = tmp_path / "cells.jsonl.gz", noise_cells.gathered([folder], ())["40%: kept", 0]
    large, small = ([{"weights": "abc", "pictures": {"size": size}}] for size in (224, 128))
    ours, theirs = ("40%: kept, judged on features", 0), ("40%: judges that saw the pairs, judged on features", 0)
    first = {ours: plain | {"features": large}, ("40%: all pairs", 0): plain, (ours[0], 1): plain | {"features": small}}
    assert noise_cells.pack(first, file) == 3, "other seeds may have others, and what nobody judged has none"
    with pytest.raises(SystemExit, match=r"seed 0: the judges of the row 40%: judges that saw.* of 40%: kept"):
        noise_cells.pack({theirs: plain | {"features": small}}, file)
    assert noise_cells.pack({theirs: plain | {"features": large}}, file) == 4
    both = {key: plain | {"features": small} for key in (ours, theirs)}
    assert noise_cells.pack(both, file) == 4, "all of them anew"


def test_judges_of_rows_of_one_seed_were_trained_alike(folder, tmp_path) -> None:
    plain = noise_cells.gathered([folder], ())["40%: kept", 0]
    rows = [f"40%: {name}, judged on features" for name in ("kept", "judges that saw the pairs")]
    short, long = (plain | {"judged_with": [f"training.steps={steps}"]} for steps in (300, 600))
    assert noise_cells.pack({(name, 0): short for name in rows}, tmp_path / "alike.jsonl.gz") == 2
    with pytest.raises(SystemExit, match=r"row 40%: judges that.*trained with other settings"):
        noise_cells.pack({(rows[0], 0): short, (rows[1], 0): long}, tmp_path / "cells.jsonl.gz")
    assert not (tmp_path / "cells.jsonl.gz").exists()


def test_cells_that_were_only_judged_are_told_and_a_trained_one_comes_in_their_place(folder, tmp_path) -> None:
    judged = tmp_path / "judged"
    judged.mkdir()
    for seed in (1, 7):
        alone = {**cell("40%: kept", seed, 0), "found": {}}
        del alone["name"]  # as cells of before
        (judged / cell_name("40%: kept", seed)).write_text(json.dumps(alone))
    row = Row("40%: kept", "features")
    cells = noise_cells.gathered([judged, folder], [row])
    assert [one["seed"] for one in noise_cells.found_in(cells, [row])[row.name]] == [0, 1, 2]
    assert [one["seed"] for one in noise_cells.named_in(cells, [row])[row.name]] == [0, 1, 2, 7]


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"{"), gzip.compress(b"[1]\n"), gzip.compress(b'{"name": "a", "seed": 0}\n'),
     gzip.compress(b"{}\n" * 99)[:-9]],
    ids=["no gzip", "no JSON", "no table", "no settings", "cut short"],  # a gzip file tells the time, and ids must not
)  # fmt: skip
def test_a_damaged_file_is_a_sentence(content: bytes, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "cells.jsonl.gz").write_bytes(content)
    with pytest.raises(SystemExit, match=r"cells\.jsonl\.gz cannot be read as cells") as ended:
        printed(monkeypatch, capsys, "features", "--cells", tmp_path / "cells.jsonl.gz")
    assert "\n" not in str(ended.value)


@pytest.mark.parametrize("words", [(), ("--out", "cells", "--cells", "file")])
def test_cells_come_from_one_place(words, monkeypatch, capsys) -> None:
    with pytest.raises(SystemExit):
        printed(monkeypatch, capsys, "features", "--report", *words)
    assert "give --out or --cells" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("data.train=/home/somebody/train.npz", "data.train=train.npz"),
        ('data.train=["/data/a.npz", "/data/b.npz"]', 'data.train=["a.npz", "b.npz"]'),
        ("image.model=transformers:/models/resnet", "image.model=transformers:resnet"),
        ("data.root=shards/coco/a.tar", "data.root=shards/coco/a.tar"),
        ("text.model=sentence-transformers/mpnet", "text.model=sentence-transformers/mpnet"),
    ],
)
def test_no_path_of_a_machine_is_kept(text: str, kept: str) -> None:
    assert noise_cells.FOLDERS.sub("", text) == kept


def test_a_table_that_is_not_what_its_command_prints_is_found(folder, tmp_path, monkeypatch, capsys) -> None:
    file = tmp_path / "tiny.jsonl.gz"
    noise_cells.pack(noise_cells.gathered([folder], ()), file)
    command = f"features --cells {file} --against kept --rows 'no noise' '40%: kept'"
    table = printed(monkeypatch, capsys, *shlex.split(command)).split("\n\n")[-1]
    page = f"Text.\n\n<!-- noise cells: {command} -->\n{table.replace('| kept |', '| **kept** |')}\nMore.\n"
    assert differing(page, monkeypatch, capsys) == ([], shlex.split(command))
    assert differing(page.replace("31.0", "31.1"), monkeypatch, capsys)[0] == [command]


def test_the_page_tells_what_the_cells_of_the_repository_say(monkeypatch, capsys) -> None:
    page = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(ROOT)
    wrong, words = differing(page, monkeypatch, capsys)
    assert not wrong
    assert page.count("<!-- noise cells:") == len(MARK.findall(page)), "a mark without a table below it"
    unnamed = {str(file.relative_to(ROOT)) for file in (ROOT / "docs" / "noise").glob("*.gz")} - set(words)
    assert not unnamed, "no table is made of these"
