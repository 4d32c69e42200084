"""What judges have done outlives what fails after them, and is not believed once the data has changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from judged_features import features_file, noisy_words, words

from equipoise.cli import main
from equipoise.data.keep.file import NOTE, TABLE
from equipoise.types import UserError
from equipoise.workflows.audit import run as audit_run

TRAINED = "Training a judge"


def test_a_run_that_fails_after_judging_keeps_what_was_judged(noisy, tmp_path, capsys):
    folder = tmp_path / "run"
    half = words({"shuffle.share": 0.5})
    few = words({"training.batch_size": 90, "clean.threshold": 0.95, "clean.steps": 60})
    assert main(["train", "features", *noisy, *half, *few, "--clean", "--out", str(folder)]) == 2
    told = capsys.readouterr()
    assert "batch_size 90 is larger than" in told.err
    assert f"--set keep.folder={folder / 'clean'}" in told.out
    assert f"--resume {folder}" in told.out
    assert (folder / "clean" / NOTE).is_file()
    taken = words({"training.steps": 2, "keep.folder": str(folder / "clean"), "keep.rule": "threshold"})
    assert main(["train", "features", *noisy, *half, *taken, "--out", str(tmp_path / "kept")]) == 0


def test_a_full_disk_costs_no_judge(noisy, tmp_path, capsys, monkeypatch):
    def full(*_: object) -> None:
        raise UserError("cannot write pairs.csv: No space left on device")

    folder = tmp_path / "cleaned"
    with monkeypatch.context() as broken:
        broken.setattr(audit_run, "write_verdict", full)
        assert main(["clean", "features", *noisy, "--out", str(folder)]) == 2
    assert capsys.readouterr().out.count(TRAINED) == 2
    assert main(["clean", "features", *noisy, "--out", str(folder)]) == 0
    assert TRAINED not in capsys.readouterr().out
    assert (folder / TABLE).is_file()


@pytest.mark.parametrize("change", ["order", "features"])
def test_judges_of_data_that_was_written_anew_are_refused(tmp_path, capsys, change):
    file = features_file(tmp_path / "f.npz", 100)
    command = ["clean", "features", *noisy_words(file, **{"training.steps": 20}), "--out", str(tmp_path / "cleaned")]
    main(command)  # judges of so few steps may know nothing
    judges = {note: json.loads(note.read_text()) for note in Path(tmp_path, "cleaned").glob("fold-*/fold.json")}
    assert len(judges) == 2
    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    changed = {name: values[::-1] if change == "order" else values + 1 for name, values in arrays.items()}
    np.savez(file, **changed)
    capsys.readouterr()
    assert main(command) == 2
    told = capsys.readouterr()
    assert "was trained on other records or captions" in told.err
    assert TRAINED not in told.out
    assert {note: json.loads(note.read_text()) for note in judges} == judges
