"""Further rounds in a folder that holds judges of other selections: what a fresh folder gives, and nothing twice."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from judged_features import words

from equipoise.cli import main
from equipoise.data.keep.file import NOTE, TABLE
from equipoise.training.checkpoint.finished_work import FOLD

TRAINED, ANEW = "Training a judge", "it is trained anew"
STRICT, SPLIT = {"clean.threshold": 0.9}, {"clean.evidence": "gmm"}


def command(noisy: list[str], folder: Path, rounds: int, settings: dict[str, object]) -> list[str]:
    return ["clean", "features", *noisy, *words({"clean.rounds": rounds, **settings}), "--out", str(folder)]


@pytest.fixture(scope="module")
def judged(tmp_path_factory, noisy) -> Path:
    """A folder whose judges of three rounds learned from what the default rule keeps."""
    folder = tmp_path_factory.mktemp("judged") / "a"
    assert main(command(noisy, folder, 3, {})) == 0
    return folder


def decided(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in (TABLE, NOTE)]


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "settings"), [(2, STRICT), (2, SPLIT), (3, STRICT), (3, SPLIT)])
def test_another_selection_in_the_same_folder_gives_what_a_fresh_folder_gives(
    judged, noisy, tmp_path, capsys, rounds, settings
):
    again, fresh = shutil.copytree(judged, tmp_path / "again"), tmp_path / "fresh"
    assert main(command(noisy, fresh, rounds, settings)) == 0
    capsys.readouterr()
    assert main(command(noisy, again, rounds, settings)) == 0
    out = capsys.readouterr().out
    assert out.count(TRAINED) == out.count(ANEW) == 2 * (rounds - 1)
    assert decided(again) == decided(fresh)
    assert main(command(noisy, again, rounds, settings)) == 0
    assert TRAINED not in capsys.readouterr().out
    assert decided(again) == decided(fresh)


@pytest.mark.slow
def test_the_same_again_trains_no_judge_of_any_round(judged, noisy, tmp_path, capsys):
    again = shutil.copytree(judged, tmp_path / "again")
    assert main(command(noisy, again, 3, {"clean.rule": "weights"})) == 0  # which chooses as the threshold does
    assert TRAINED not in capsys.readouterr().out
    assert main(command(noisy, again, 3, {})) == 0
    assert TRAINED not in capsys.readouterr().out
    assert decided(again) == decided(judged)


@pytest.mark.slow
def test_a_judge_of_before_selections_were_noted_is_trained_anew(judged, noisy, tmp_path, capsys):
    again = shutil.copytree(judged, tmp_path / "again")
    place = again / "round-2" / "fold-1-of-2-seed-0"
    note = json.loads((place / FOLD).read_text())
    del note["selection"]
    (place / FOLD).write_text(json.dumps(note))
    assert main(command(noisy, again, 2, {})) == 0
    out = capsys.readouterr().out
    assert out.count(TRAINED) == out.count(ANEW) == 1
    assert str(place) in out


@pytest.mark.slow
def test_killed_while_judges_are_trained_anew_it_goes_on_to_the_same_bytes(judged, noisy, tmp_path):
    again, fresh = shutil.copytree(judged, tmp_path / "again"), tmp_path / "fresh"
    assert main(command(noisy, fresh, 3, STRICT)) == 0
    left, second = decided(judged), again / "round-2" / "fold-2-of-2-seed-0" / "checkpoints" / "step-00000010"
    words = [sys.executable, "-m", "equipoise", *command(noisy, again, 3, STRICT)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not second.exists() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert decided(again) == left
    assert main(command(noisy, again, 3, STRICT)) == 0
    assert decided(again) == decided(fresh)
