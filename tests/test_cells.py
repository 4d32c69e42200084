"""Cells of an experiment: trained once, told by row and seed."""

from __future__ import annotations

import argparse
import json

import cells
import pytest

FEW = ("training.steps=2", "training.warmup_steps=1", "training.evaluate_every=2", "training.batch_size=8")
TINY = (*FEW, "data.train_size=64", "data.validation_size=16", "image.layers=1", "text.layers=1")
ROWS = [
    cells.Row("a / b", "demo", (*TINY, "temperature.init=1.0")),
    cells.Row("c", "demo", (*TINY, "temperature.init=2.0")),
]


def options(folder, *arguments):
    parser = argparse.ArgumentParser()
    cells.add_options(parser)
    return parser.parse_args(["--out", str(folder), *arguments])


@pytest.mark.slow
def test_a_cell_is_trained_once_and_seeds_come_last(tmp_path, capfd):
    first = cells.run(ROWS, options(tmp_path, "--seeds", "1"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a---b-0.json", "c-0.json"]
    assert [len(results) for results in first.values()] == [1, 1]
    assert first["a / b"][0]["t"] == pytest.approx(1.0, abs=0.01)
    assert first["c"][0]["t"] == pytest.approx(2.0, abs=0.01)
    assert "2 of 2: c-0" in capfd.readouterr().out
    again = cells.run(ROWS, options(tmp_path, "--seeds", "1"))
    assert again == first
    assert " of " not in capfd.readouterr().out
    report = cells.run(ROWS, options(tmp_path, "--seeds", "3", "--report"))
    assert report == first, "a report trains nothing"


@pytest.mark.slow
def test_what_was_trained_is_written_beside_what_it_gave(tmp_path):
    cells.run(ROWS[:1], options(tmp_path, "--seeds", "1", "--set", "training.learning_rate=1e-4"))
    written = json.loads((tmp_path / "a---b-0.json").read_text())
    assert written["recipe"] == "demo"
    assert written["settings"] == [*ROWS[0].settings, "training.learning_rate=1e-4", "seed=0"]


def test_the_table_gives_means_and_ranges_in_percent():
    found = {"a": [{"x": 0.1, "t": 1.0}, {"x": 0.3, "t": 2.0}], "b": [{"t": 3.0}]}
    assert cells.table(found, {"R@1": "x", "t": "t"}).splitlines() == [
        "| mean of 2 (lowest–highest) | R@1 | t |",
        "|---|---:|---:|",
        "| a | 20.0 (10.0–30.0) | 1.50 (1.00–2.00) |",
        "| b (mean of 1) | - | 3.00 (3.00–3.00) |",
    ]


def test_rows_are_compared_by_seed_and_not_by_place():
    ours = [{"seed": seed, "x": value} for seed, value in ((0, 0.1), (2, 0.3), (3, 0.4))]
    theirs = [{"seed": seed, "x": value} for seed, value in ((1, 0.2), (2, 0.25), (3, 0.45))]
    assert [(own["x"], other["x"]) for own, other in cells.paired(ours, theirs)] == [(0.3, 0.25), (0.4, 0.45)]
    assert not cells.paired(ours, ())


def test_rows_may_be_chosen_by_name(tmp_path):
    assert list(cells.run(ROWS, options(tmp_path, "--report", "--rows", "c"))) == ["c"]
    with pytest.raises(SystemExit, match="there is no row d; there are: a / b; c"):
        cells.run(ROWS, options(tmp_path, "--report", "--rows", "d"))
