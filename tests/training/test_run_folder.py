"""One run at a time in a folder, and no dead one in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from equipoise.io.folder_lock import LOCK, locked, only_writer
from equipoise.models.folder import CONFIG
from equipoise.training.checkpoint.finished_work import NothingToKeep
from equipoise.training.checkpoint.run_folder import locked_run
from equipoise.types import UserError

HOLD = """
import os, sys, time
from pathlib import Path
from equipoise.io.folder_lock import locked
with locked(Path(sys.argv[1])):
    if sys.argv[2] == "plain" or os.fork() == 0:  # a child says so, for by then it has let go
        print("held", flush=True)
    time.sleep(60)
    os._exit(0)
"""


def holder(folder: Path, how: str = "plain") -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    command = [sys.executable, "-c", HOLD, str(folder), how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_other_process_is_named(tmp_path):
    other = holder(tmp_path)
    try:
        with pytest.raises(UserError, match=rf"{tmp_path} is in use by process {other.pid} on "), locked(tmp_path):
            pass
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()


@pytest.mark.parametrize("how", ["plain", "fork"])
def test_a_dead_process_does_not_block(tmp_path, how):
    other = holder(tmp_path, how)
    other.kill()
    other.wait()
    assert (tmp_path / LOCK).exists()
    try:
        with locked(tmp_path):
            assert str(os.getpid()) in (tmp_path / LOCK).read_text()
    finally:
        if how == "fork":  # its child lives on
            os.killpg(other.pid, signal.SIGKILL)


def test_a_lock_leaves_nothing_behind(tmp_path):
    for _ in range(2):
        with locked(tmp_path / "new" / "run"):
            pass
    assert not (tmp_path / "new" / "run").exists()
    with locked(tmp_path):
        (tmp_path / "file").touch()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["file"]


def test_the_only_writer_clears_what_a_killed_one_left(tmp_path):
    (tmp_path / ".00003.tar.4711.tmp").touch()
    (tmp_path / "00002.tar").touch()
    with only_writer(tmp_path), pytest.raises(UserError, match="is in use"), only_writer(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["00002.tar"]


@pytest.mark.slow
def test_one_of_many_gets_it(tmp_path):
    """Processes that come and go at the same time never hold it together."""
    script = """
import sys, time
from pathlib import Path
from equipoise.io.folder_lock import locked
from equipoise.types import UserError
folder, inside = Path(sys.argv[1]), Path(sys.argv[1]) / "inside"
for _ in range(300):
    try:
        with locked(folder):
            inside.touch(exist_ok=False)
            inside.unlink()
    except UserError:
        time.sleep(0.0002)
"""
    several = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(4)]
    deadline = time.monotonic() + 60
    assert [process.wait(deadline - time.monotonic()) for process in several] == [0, 0, 0, 0]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"), locked(tmp_path / "file" / "run"):
        pass


def begin_and_fail(folder: Path, error: type[BaseException], *inside: str, content: str = "") -> None:
    with locked_run(folder):
        for name in (CONFIG, *inside):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        raise error("broken")


def test_what_fails_before_its_first_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    """A first try that failed must not refuse the second."""
    folder, mine = tmp_path / "run", tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    for place in (folder, mine):
        with pytest.raises(UserError, match="broken"):
            begin_and_fail(place, UserError, "start/config.toml")
    assert not folder.exists()
    assert [path.name for path in mine.iterdir()] == ["notes.txt"]
    with pytest.raises(UserError, match="broken"):
        begin_and_fail(folder, UserError, "checkpoints/step-00000001/state.json")
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", CONFIG]


@pytest.mark.parametrize(
    ("inside", "content", "stays"),
    [
        ("fold-1-of-2-seed-0/fold.json", '{"trained": true}', True),
        ("fold-1-of-2-seed-0/fold.json", '{"records": 8}', False),  # that judge has only begun
        ("fold-1-of-2-seed-0/fold.json", "", True),  # damaged: who asks for the judge is told
        ("clean/keep.json", "{}", True),
        (".scoring-0123/images/00000.safetensors", "", True),
        ("clean/cost.json", "{}", False),
    ],
)
def test_judges_that_are_trained_outlive_a_failure(tmp_path, inside, content, stays):
    folder = tmp_path / "run"
    with pytest.raises(UserError, match="broken"):
        begin_and_fail(folder, UserError, inside, content=content)
    assert (folder / inside).exists() is stays
    assert folder.exists() is stays


def test_judges_that_know_nothing_are_no_finished_work(tmp_path):
    """Whoever lets them train longer may do so in the same folder."""
    with pytest.raises(NothingToKeep):
        begin_and_fail(
            tmp_path / "run", NothingToKeep, "clean/fold-1-of-2-seed-0/fold.json", content='{"trained": true}'
        )
    assert not (tmp_path / "run").exists()


def test_an_interrupt_leaves_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        begin_and_fail(tmp_path / "run", KeyboardInterrupt)
    assert (tmp_path / "run" / CONFIG).exists()
