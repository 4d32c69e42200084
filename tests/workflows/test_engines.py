"""Jobs of numbered files: what one process writes, what several write, and what becomes of mistakes among them."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from slow_parts import SlowJob, contents

from equipoise.cli import main
from equipoise.types import UserError
from equipoise.workflows.engines import Engine, write_parts
from equipoise.workflows.engines.ray_data import root_cause
from equipoise.workflows.engines.worker import TRIES, PartDone, Surroundings, Worker

SHARED = """if __name__ == "__main__":
    import sys
    from pathlib import Path
    from slow_parts import SlowJob
    from equipoise.workflows.engines import Engine, write_parts
    job = SlowJob(Path(sys.argv[1]), Path(sys.argv[2]), seconds=float(sys.argv[3]))
    write_parts(Engine(processes=2), job(), job, "writing")"""


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def runs(pid: int) -> bool:
    """Whether a process is there, and no zombie whose new parent has not looked yet."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def job_in(tmp_path: Path, name: str = "out", **wish) -> SlowJob:
    (tmp_path / name).mkdir()
    return SlowJob(tmp_path / name, tmp_path, **{"seconds": 0.0, **wish})


def worker(job: SlowJob) -> Worker:
    return Worker(job, Surroundings.here(), 1)


def test_a_worker_writes_what_one_process_writes_and_nothing_twice(tmp_path):
    one, other = job_in(tmp_path, "one"), job_in(tmp_path, "other")
    write_parts(Engine(), one(), one, "writing")
    writer = worker(other)
    done = [writer.write(number) for number in (*range(12), 3)]
    assert contents(one.folder) == contents(other.folder)
    assert [part.seen for part in done] == [2] * 12 + [0]  # the last was there
    assert sorted(number for number, _ in other.begun()) == sorted([*range(12)] * 2)  # once for either job


def test_bad_records_of_all_processes_are_counted_together(tmp_path):
    """Each of two has fewer than are allowed (12), both have more."""
    job = job_in(tmp_path, records=24, bad=2, max_bad=0.5)
    here, workers = job(), (worker(job), worker(job))
    parts = [workers[number % 2].write(number) for number in range(7)]
    assert not any(part.failed for part in parts)
    for part in parts[:6]:
        part.accept(here.bad)
    with pytest.raises(UserError, match=r"00006.*is bad"):
        parts[6].accept(here.bad)


def test_a_mistake_in_another_process_is_its_sentence_here(tmp_path):
    job = job_in(tmp_path, bad=2, max_bad=0.0)
    done = worker(job).write(0)
    assert "cannot be used" in done.failed
    with pytest.raises(UserError, match="cannot be used"):
        done.accept(job().bad)


def test_want_of_memory_in_another_process_is_a_sentence_too(tmp_path):
    failed = worker(job_in(tmp_path, asked=1 << 60)).write(0).failed
    assert "memory ran out" in failed
    assert "--batch-size" in failed


def test_warnings_of_another_process_are_given_here(tmp_path):
    with pytest.warns(UserWarning, match="left out x"):
        PartDone(0, 1, (), ("left out x",)).accept(job_in(tmp_path)().bad)


def test_what_kills_its_writer_every_time_comes_to_an_end(tmp_path):
    job = job_in(tmp_path)

    for number in range(1, TRIES + 1):
        (job.folder / f".00004.safetensors-begun.{number}.tmp").touch()
    assert "died" in worker(job).write(4).failed
    assert not worker(job).write(5).failed
    assert "00005.safetensors" in contents(job.folder)


def test_a_folder_that_is_not_on_the_other_machine(tmp_path):
    around = Surroundings("/nowhere/at/all", "cpu", (), (), False, Surroundings.here().versions)
    assert "/nowhere/at/all" in Worker(job_in(tmp_path), around, 1).write(0).failed
    missing = SlowJob(tmp_path / "not there", tmp_path)
    assert "all machines share" in worker(missing).write(0).failed


def test_other_versions_on_the_other_machine(tmp_path):
    here = Surroundings.here()
    other = Surroundings(here.folder, "cpu", (), (), False, ("0.0.1", here.versions[1]))
    assert "0.0.1" in Worker(job_in(tmp_path), other, 1).write(0).failed


def test_files_that_did_not_come_back_are_told(tmp_path, monkeypatch):
    from equipoise.workflows.engines import processes

    job = job_in(tmp_path)
    monkeypatch.setattr(processes, "write_in_processes", lambda *_: None)  # as on a disk that is not shared
    with pytest.raises(UserError, match="all machines share"):
        write_parts(Engine(processes=2), job(), job, "writing")


def test_processes_that_would_have_nothing_to_do_are_not_begun_and_it_is_said(tmp_path, monkeypatch):
    from equipoise.workflows.engines import processes

    begun: list[int] = []

    def write(writer, job, count, doing):
        begun.append(count)
        writer.write_missing(doing)

    monkeypatch.setattr(processes, "write_in_processes", write)
    one, three, four = (job_in(tmp_path, str(count), records=2 * count) for count in (1, 3, 4))
    with pytest.warns(UserWarning, match="one file, so one process does it, not 4; a smaller --per-shard gives all"):
        write_parts(Engine(processes=4), one(), one, "writing", "--per-shard")
    assert begun == [], "written here"
    with pytest.warns(UserWarning, match="3 files, so 3 processes do it, not 4"):
        write_parts(Engine(processes=4), three(), three, "writing", "--per-shard")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_parts(Engine(processes=4), three(), three, "writing")  # which no option cuts finer
        write_parts(Engine(processes=4), four(), four, "writing", "--per-shard")
    assert begun == [3, 3, 4]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux which processes run")
def test_processes_end_with_the_one_that_was_killed(tmp_path):
    """Else each stays for ever, with its model, and writes beside those of the next try."""
    job = job_in(tmp_path, seconds=2.0)
    command = [sys.executable, "-c", SHARED, str(job.folder), str(job.notes), str(job.seconds)]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=paths) as process:
        wait_until(lambda: len(job.begun()) == 2)
        process.kill()
    wait_until(lambda: not any(runs(pid) for _, pid in job.begun()))
    assert len(job.begun()) == 2


@pytest.mark.parametrize(
    "everyone", [pytest.param(True, id="ctrl-c"), pytest.param(False, id="kill -INT", marks=pytest.mark.slow)]
)
def test_processes_stop_soon_and_in_silence(tmp_path, everyone):
    """Ctrl-C reaches them all, `kill` the first alone; files that wait their turn are not begun."""
    job = job_in(tmp_path, seconds=20.0)
    command = [sys.executable, "-c", SHARED, str(job.folder), str(job.notes), str(job.seconds)]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=paths, stderr=subprocess.PIPE, start_new_session=True) as process:
        wait_until(lambda: len(job.begun()) == 2)
        (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
        begun = time.monotonic()
        _, told = process.communicate(timeout=60)
    assert time.monotonic() - begun < job.seconds / 2
    assert len(job.begun()) == 2
    assert contents(job.folder) == {}, "nor is anything left of those that were given up"
    assert b"Process Spawn" not in told


def test_engines_that_cannot_be(tmp_path, capsys, monkeypatch):
    with pytest.raises(UserError, match="local, ray"):
        Engine("spark")
    with pytest.raises(UserError, match="processes"):
        Engine(processes=0)
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    job = job_in(tmp_path)
    with pytest.raises(UserError, match=r"equipoise\[ray\]"):
        write_parts(Engine("ray"), job(), job, "writing")


def test_findings_of_parts_are_those_of_one_pass(tmp_path):
    """Copies, captions and labels that lie in different parts, and faults."""
    from test_check_data import write_shard

    from equipoise.data.files import Shards, check_parts
    from equipoise.data.files.check import check

    pytest.importorskip("webdataset")
    captions = {f"{number}.txt": b"a cat" if number % 3 else b"a dog\nsome dog" for number in range(9)}
    path = write_shard(tmp_path / "a.tar", {**captions, "bad.txt": b"", "0.json": b'{"label": "x"}'})
    records = Shards(test=str(path)).records((str(path),))
    (tmp_path / "parts").mkdir()
    with pytest.MonkeyPatch.context() as small:
        small.setattr(check_parts, "PER_FILE", 4)
        writer = check_parts.check_writer(records, tmp_path / "parts", len, None)
    writer.write_missing("reading")
    assert len(writer.files) == 3
    summary = check_parts.findings_of(records, writer.files).summary()
    assert summary == check(records, None, len, None).summary()
    assert summary["unusable"] == 1
    assert summary["images that are copies"] == 8


@pytest.mark.slow
def test_two_processes_check_as_one_does(tmp_path, capsys):
    from test_check_data import write_shard

    pytest.importorskip("webdataset")
    path = write_shard(tmp_path / "a.tar", {"x.txt": b"a cat", "y.txt": b"a dog", "z.txt": b""})
    for name, words in (("one", []), ("two", ["--processes", "2"])):
        assert main(["data", "check", str(path), "--out", str(tmp_path / name), *words]) == 1
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.slow
def test_two_processes_prepare_as_one_does(tmp_path, capsys):
    pytest.importorskip("webdataset")
    path = damaged_shard(tmp_path / "a.tar", 8)
    for name, words in (("one", []), ("two", ["--processes", "2"])):
        command = ["data", "prepare", str(path), str(tmp_path / name), "--size", "16", "--per-shard", "3", *words]
        assert main(command) == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert "bad" in (tmp_path / "two" / "left_out.json").read_text()
    assert capsys.readouterr().out.count("9 records are in 4 shards (.tar) in ") == 2, "of ten that could be listed"
    first = tmp_path / "two" / "00000.tar"
    stamp = first.stat().st_mtime_ns
    (tmp_path / "two" / "00001.tar").unlink()
    assert main([*command[:3], str(tmp_path / "two"), *command[4:]]) == 0, "what is missing is written, nothing else"
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert first.stat().st_mtime_ns == stamp


@pytest.mark.slow
def test_processes_share_a_job_and_hand_back_warnings(tmp_path):
    job = job_in(tmp_path, seconds=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_parts(Engine(processes=2), job(), job, "writing")
    assert sorted(number for number, _ in job.begun()) == list(range(12))
    assert len({pid for _, pid in job.begun()}) == 2


def damaged_shard(path: Path, count: int) -> Path:
    """Pictures, two of which are the same and one of which cannot be read."""
    from test_index_workflow import shard

    shard(path, count)
    with tarfile.open(path) as tar:
        copied = tar.extractfile("0001.jpg").read()
    with tarfile.open(path, "a") as tar:
        files = {"copy.jpg": copied, "copy.txt": b"a copy", "bad.jpg": b"no picture", "bad.txt": b"not to be seen"}
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def scored(capsys, command: str, data: Path, model: Path, out: Path, *words: str) -> dict[str, bytes]:
    """The files of an audit; of `clean` too, which goes no further with a model that was not trained."""
    assert (
        main([command, str(data), "--model", str(model), "--out", str(out), *words])
        == {"audit": 0, "clean": 2}[command]
    )
    assert capsys.readouterr().err.count("grey picture") == 1  # told once, whoever met it
    return contents(out)


@pytest.mark.slow
def test_points_of_parts_judge_as_those_of_one_process(tmp_path, monkeypatch, capsys):
    """Several parts, copies in different ones, and a picture that cannot be read."""
    from test_index_workflow import model_in

    from equipoise.evaluation import encoding
    from equipoise.workflows.audit import points, points_job
    from equipoise.workflows.audit.shared_points import SCORES

    pytest.importorskip("webdataset")
    data, model = damaged_shard(tmp_path / "a.tar", 20), model_in(tmp_path / "model", 0)
    for place, name, size in ((points, "BATCH", 4), (points_job, "BATCH", 4), (points_job, "BATCHES", 2)):
        monkeypatch.setattr(place, name, size)
    for place in (encoding, points_job):
        monkeypatch.setattr(place, "TEXTS_AT_ONCE", 8)
    one = scored(capsys, "audit", data, model, tmp_path / "one")
    (tmp_path / "two" / f"{SCORES}left").mkdir(parents=True)  # of several processes, so that this one writes files too
    two = scored(capsys, "audit", data, model, tmp_path / "two")
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert b"copy" in one["neighbours.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["audit", "clean"])
def test_two_processes_judge_as_one_does(tmp_path, capsys, command):
    from test_index_workflow import model_in

    pytest.importorskip("webdataset")
    data, model = damaged_shard(tmp_path / "a.tar", 20), model_in(tmp_path / "model", 0)
    one = scored(capsys, command, data, model, tmp_path / "one")
    two = scored(capsys, command, data, model, tmp_path / "two", "--processes", "2")
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def test_what_ray_adds_to_a_mistake_does_not_hide_it():
    """As Ray 2.60 tells of an error in an actor."""
    told = (
        '\x1b[36mray::MapWorker()\x1b[39m (pid=1)\n  File "results_folder.py", line 94, in mark\n'
        "FileNotFoundError: [Errno 2] No such file or directory: 'out/x'\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "ray.exceptions.UserCodeException: UDF failed to process a data block.\nTo change retry attempts, see there."
    )
    assert root_cause(told) == "FileNotFoundError: [Errno 2] No such file or directory: 'out/x'"
    assert root_cause("the node died\n") == "the node died"
