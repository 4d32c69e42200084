"""`--engine ray` on a cluster of two machines, one of which goes: two nodes with a processor each, in this machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from slow_parts import contents
from test_index_workflow import model_in, shard

from equipoise.cli import main

pytest.importorskip("webdataset")
if find_spec("ray") is None:
    pytest.skip("Ray is not installed: pip install 'equipoise[ray]'", allow_module_level=True)
pytestmark = pytest.mark.slow

PER_FILE, RECORDS = 2, 240


@pytest.fixture
def cluster(monkeypatch) -> Iterator:
    """Two nodes, at RAY_ADDRESS."""
    from equipoise.workflows.engines.ray_data import ON_THIS_MACHINE, import_ray

    for name, value in ON_THIS_MACHINE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as actors of one processor have
    import_ray()
    from ray.cluster_utils import Cluster

    room = {"num_cpus": 1, "object_store_memory": 100 << 20}
    nodes = Cluster(initialize_head=True, head_node_args={**room, "include_dashboard": False})
    try:
        nodes.add_node(**room)
        monkeypatch.setenv("RAY_ADDRESS", nodes.address)
        yield nodes
    finally:
        nodes.shutdown()
        torch.set_num_threads(threads)


def has_actor(node) -> bool:
    import psutil

    (raylet,) = node.all_processes["raylet"]
    return any("MapWorker" in " ".join(one.cmdline()) for one in psutil.Process(raylet.process.pid).children())


class Watch(threading.Thread):
    """Notes when each file of a folder came under its name, and calls `lose` once when there are some and the machine
    that is to go has an actor."""

    def __init__(self, folder: Path, node, lose):
        super().__init__(daemon=True)
        self.folder, self.node, self.lose = folder, node, lose
        self.stamps: dict[str, set[tuple[int, int]]] = {}  # inode and time of every file seen under that name
        self.at_loss = 0
        self.done = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.done.is_set():
            self.look()
            if not self.at_loss and len(self.stamps) > 10 and has_actor(self.node):
                self.at_loss = len(self.stamps)
                threading.Thread(target=self.lose, daemon=True).start()
            time.sleep(0.005)

    def look(self) -> None:
        for path in self.folder.glob("*.safetensors"):
            status = path.stat()
            self.stamps.setdefault(path.name, set()).add((status.st_ino, status.st_mtime_ns))


def test_embed_when_one_of_two_machines_goes(cluster, tmp_path):
    """The machine takes its only processor along, so nothing is begun again in its place."""
    model, data = model_in(tmp_path / "model", 0), shard(tmp_path / "a.tar", RECORDS)
    words = ["embed", str(model), str(data), "--per-shard", str(PER_FILE)]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    (lost,) = cluster.worker_nodes
    watch = Watch(tmp_path / "two", lost, lambda: cluster.remove_node(lost, allow_graceful=False))
    assert main([*words, "--out", str(tmp_path / "two"), "--engine", "ray"]) == 0
    watch.done.set()
    watch.join()
    watch.look()
    assert 10 < watch.at_loss < RECORDS // PER_FILE, "it went midway"
    assert not cluster.worker_nodes
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert {name: len(seen) for name, seen in watch.stamps.items()} == dict.fromkeys(watch.stamps, 1)  # none twice
    assert len(watch.stamps) == RECORDS // PER_FILE
