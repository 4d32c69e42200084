"""`--engine ray`: the bytes of one process, through lost actors and stopped commands; nothing leaves this machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from slow_parts import SlowJob, contents
from test_index_workflow import model_in, shard

from equipoise.cli import main
from equipoise.types import UserError
from equipoise.workflows.engines import Engine, write_parts

pytest.importorskip("webdataset")
if find_spec("ray") is None:  # not imported yet, for where it listens is settled then
    pytest.skip("Ray is not installed: pip install 'equipoise[ray]'", allow_module_level=True)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def session():
    """One Ray for all tests here, begun as a command begins it: it takes half a minute."""
    from equipoise.workflows.engines.ray_data import _session, import_ray

    before, threads = dict(os.environ), torch.get_num_threads()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), before.get("PYTHONPATH", "")])
    torch.set_num_threads(1)  # as actors of two processors have
    try:
        with _session(import_ray(), 2):
            yield
    finally:
        torch.set_num_threads(threads)
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return model_in(tmp_path_factory.mktemp("model"), 0)


def ray_processes(name: str = "") -> list:
    import psutil

    found = psutil.Process().children(recursive=True)
    alive = [process for process in found if process.status() != psutil.STATUS_ZOMBIE]
    return [process for process in alive if name in " ".join(process.cmdline())]


def kill_an_actor_once(ready) -> threading.Thread:
    """SIGKILL for one actor of ours, as soon as `ready()`."""

    def kill() -> None:
        while not ready():
            time.sleep(0.02)
        os.kill(ray_processes("MapWorker")[0].pid, signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def test_a_killed_actor_costs_the_file_it_was_at_and_no_other(tmp_path):
    one, two = (SlowJob(tmp_path / name, tmp_path / f"notes-{name}") for name in ("one", "two"))
    for job in (one, two):
        job.folder.mkdir()
        job.notes.mkdir()
    write_parts(Engine(), one(), one, "writing")
    killed = kill_an_actor_once(lambda: len(two.begun()) > 4)
    write_parts(Engine("ray", 2), two(), two, "writing")
    killed.join(timeout=5)
    assert not killed.is_alive()
    assert contents(one.folder) == contents(two.folder)  # no half-written file is left either
    begun = [number for number, _ in two.begun()]
    assert set(begun) == set(range(12))
    assert len(begun) <= 13
    assert len({pid for _, pid in two.begun()}) >= 2


def test_embed_through_a_killed_actor(model, tmp_path):
    data = shard(tmp_path / "a.tar", 40)
    words = ["embed", str(model), str(data), "--per-shard", "2"]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    out = tmp_path / "two"
    killed = kill_an_actor_once(lambda: len(list(out.glob("*.safetensors"))) > 1)
    assert main([*words, "--out", str(out), "--engine", "ray", "--processes", "2"]) == 0
    killed.join(timeout=5)
    assert contents(tmp_path / "one") == contents(out)


def test_embed_into_a_store_through_a_killed_actor(model, tmp_path):
    """By its address (file:), and nothing is left of the actor that died."""
    pytest.importorskip("fsspec")
    data = shard(tmp_path / "a.tar", 40)
    words = ["embed", str(model), str(data), "--per-shard", "2"]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    out = tmp_path / "two"
    killed = kill_an_actor_once(lambda: len(list(out.glob("*.safetensors"))) > 1)
    assert main([*words, "--out", f"file://{out}", "--engine", "ray", "--processes", "2"]) == 0
    killed.join(timeout=5)
    assert contents(tmp_path / "one") == contents(out)


def test_what_one_engine_left_another_goes_on_with(model, tmp_path):
    """Files that exist stay as they are, to the moment they were written."""
    data = shard(tmp_path / "a.tar", 12)
    words = ["embed", str(model), str(data), "--per-shard", "3"]
    for name in ("one", "two"):
        assert main([*words, "--out", str(tmp_path / name)]) == 0
    lost = tmp_path / "two" / "00002.safetensors"
    lost.unlink()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "two").glob("*.safetensors")}
    assert main([*words, "--out", str(tmp_path / "two"), "--engine", "ray"]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("command", ["index", "check", "prepare", "regions", "audit", "clean"])
def test_the_bytes_of_one_process(model, tmp_path, command):
    """`clean` scores, and goes no further with a model that was not trained."""
    data = shard(tmp_path / "a.tar", 9)
    words = {
        "index": ["index", str(model), str(data), "--per-shard", "2", "--of", "both"],
        "check": ["data", "check", str(data)],
        "prepare": ["data", "prepare", str(data), "--size", "16", "--per-shard", "2"],
        "regions": ["regions", str(data), "--per-file", "4"],
        "audit": ["audit", str(data), "--model", str(model)],
        "clean": ["clean", str(data), "--model", str(model)],
    }[command]
    out = [] if command == "prepare" else ["--out"]
    for name, engine in (("one", []), ("two", ["--engine", "ray"])):
        assert main([*words, *out, str(tmp_path / name), *engine]) == (2 if command == "clean" else 0)
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert one
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def test_judges_of_their_own_by_ray(tmp_path):
    """They are trained here, and score there: pictures audited, features cleaned in two rounds."""
    from judged_features import features_file, noisy_words
    from test_shared_judges import judged, pictures

    rounds = noisy_words(features_file(tmp_path / "f.npz", 200), **{"clean.rounds": 2, "clean.steps": 30})
    for command, data in (("audit", pictures(tmp_path)), ("clean", ["features", *rounds])):
        one = judged(command, *data, out=tmp_path / f"{command}-one")
        two = judged(command, *data, "--engine", "ray", "--processes", "2", out=tmp_path / f"{command}-two")
        assert one.keys() == two.keys()
        assert [name for name in one if one[name] != two[name]] == []


def test_a_mistake_in_an_actor_is_its_sentence(tmp_path):
    job = SlowJob(tmp_path / "out", tmp_path, bad=2, max_bad=0.0)
    job.folder.mkdir()
    with pytest.raises(UserError, match="cannot be used"):
        write_parts(Engine("ray", 1), job(), job, "writing")


def test_more_processes_than_there_is_room_for(tmp_path):
    job = SlowJob(tmp_path / "out", tmp_path)
    job.folder.mkdir()
    with pytest.raises(UserError, match="--processes"):
        write_parts(Engine("ray", 99), job(), job, "writing")


def listening(process) -> list:
    """What a process listens on; nothing if it has ended meanwhile, as workers do that are not needed any more."""
    import psutil

    with suppress(psutil.Error):
        return [one for one in process.net_connections("inet") if one.status == "LISTEN"]
    return []


def test_ray_listens_on_this_machine_alone():
    import ipaddress

    ports = [one for process in ray_processes() for one in listening(process)]
    assert ports
    hosts = {ipaddress.ip_address(one.laddr.ip.removeprefix("::ffff:")) for one in ports}
    assert all(host.is_loopback for host in hosts), hosts
