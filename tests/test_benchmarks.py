"""Every benchmark, run in its smallest form: what the pages quote can still be made.

`SMALLEST` holds the words of one short run each, `ELSEWHERE` the tests that run others, `NOT_HERE` those that nothing
here can run, and why.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from threading import Thread

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
FEW = ("training.steps=2", "training.warmup_steps=1", "training.evaluate_every=2", "training.batch_size=8")
SIZES = ("data.train_size=64", "data.validation_size=16", "data.test_size=16")
SHALLOW = ("image.layers=1", "text.layers=1")
STUDY = ("--out", "cells", "--seeds", "1")


def given(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


SCENES = given(*FEW, *SIZES, *SHALLOW)
WIDTHS = ("image.width=16", "text.width=8")
FEATURES = given(*FEW, *WIDTHS, *(f"data.{split}=features.npz" for split in ("train", "validation")))
SMALLEST: dict[str, list[str]] = {
    "captions": ["scenes", *STUDY, "--rows", "CL + Cap", *SCENES],
    "coca": ["--batch", "4", "--pictures", "2", "--steps", "1"],
    "codebook": ["--samples", "4", "--tokens", "5", "--codes", "64", "--width", "16"],
    "contrast_memory": ["--pairs", "1024", "--dim", "16", "--repeats", "1"],
    "copies": ["scenes", "--size", "200"],
    "data": ["--rounds", "1"],
    "fdt": ["methods", *STUDY, "--rows", "CLIP", *SCENES],
    "feed": ["--rounds", "1"],
    "finetuning": ["words", *STUDY, "--starts", "starts", "--rows", "zero-shot", *given(*SIZES)],
    "index": ["--points", "2000", "--queries", "5", "--kinds", "exact"],
    "losses": ["--pairs", "32", "--dim", "16", "--repeats", "1"],
    "mixup": ["loss", "--pairs", "64", "--dim", "16", "--repeats", "1"],
    "modalities": ["gmc-world", *STUDY, "--rows", "gmc", "--draw", "codes.png",
                   *given("training.steps=2", "training.warmup_steps=1")],
    "multi": ["--scenes", "64", "--batch", "8", "--seeds", "0", "--steps", "2", "--n", "8", "--m", "2",
              *given("data.test_size=16", *SHALLOW)],
    "noise": ["scenes", *STUDY, "--shares", "0.4", "--rates", "1e-3", "2e-3", "--rows", "40%: all pairs", *SCENES],
    "ranking": ["--images", "20", "--ours"],
    "ranks": ["--ranks", "2", "--pairs", "32", "--dim", "8", "--repeats", "1", "--ways", "ring"],
    "record_index": ["--records", "300", "--per-shard", "100", "--reads", "10"],
    "recomputation": ["--width", "16", "--layers", "2", "--heads", "2", "--size", "32", "--batch", "2", "--steps", "1"],
    "regions": ["--scenes", "4"],
    "resize": ["--rounds", "1"],
    "scale": ["--check"],
    "scenes": ["--scenes", "32"],
    "scenes_truth": ["--scenes", "20"],
    "serve_load": ["starts/start-0", "--users", "2", "--seconds", "2"],
    "softclip": ["features", *STUDY, "--rows", "CLIP", *FEATURES],
    "sparsemax": ["--rows", "4", "--codes", "64", "--repeats", "1"],
    "topology": ["features.npz", "features.npz", "--out", "cells", "--steps", "2", "--dim", "16", "--batch", "8",
                 "--seeds", "1", "--noise", "0.4", "--temperatures", "from 0"],
    "topology_scenes": ["multi", *STUDY, *SCENES],
    "train_step": ["--rows", "ours", "--batch", "4", "--steps", "1"],
    "weak_scaling": ["--ranks", "1", "2", "--per-rank", "4", "--steps", "1"],
}  # fmt: skip
ELSEWHERE = {
    "benchmark_parity": "tests/workflows/test_benchmark_peers.py",
    "consistency": "tests/test_consistency_benchmark.py",
    "copy_scenes": "tests/data/test_copy_scenes.py",
    "kill": "tests/training/test_kill.py",
    "kills": "tests/test_reliability.py",
    "rerank": "tests/test_rerank.py",
    "soak": "tests/test_reliability.py",
    "softclip_words": "tests/test_softclip_words.py",
    "tcl": "tests/test_tcl_benchmark.py",
}
NOT_HERE = {
    "caption_tokens": "asks for Java and pycocoevalcap",
    "codebook_gpu": "times kernels of a GPU",
    "contrast_gpu": "times kernels of a GPU",
    "contrast_weighted": "times kernels of a GPU",
    "profile_step": "times kernels of a GPU",
    "step_parts_gpu": "times kernels of a GPU",
}
LIBRARIES = {"index": "faiss"}


def programs() -> list[str]:
    """Benchmarks that one can start; the others are parts of them."""
    return sorted(path.stem for path in BENCHMARKS.glob("*.py") if '__name__ == "__main__"' in path.read_text())


def test_every_benchmark_is_run_somewhere_or_cannot_be() -> None:
    assert sorted([*SMALLEST, *ELSEWHERE, *NOT_HERE]) == programs()
    for name, place in ELSEWHERE.items():
        assert re.search(rf"\b{name}\b", (BENCHMARKS.parent / place).read_text()), f"{place} does not run {name}.py"


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Points of 600 pictures and captions that belong together."""
    folder = tmp_path_factory.mktemp("features")
    make = np.random.default_rng(0)
    image = make.standard_normal((600, 16)).astype(np.float32)
    text = image[:, None, :8] + 0.1 * make.standard_normal((600, 2, 8)).astype(np.float32)
    np.savez(folder / "features.npz", image=image, text=text.astype(np.float32))
    return folder / "features.npz"


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs_in_its_smallest_form(name: str, features: Path, finished_run: Path, tmp_path: Path) -> None:
    if (library := LIBRARIES.get(name)) and find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    (tmp_path / features.name).symlink_to(features)
    if any(word.startswith("starts") for word in SMALLEST[name]):
        copytree(finished_run, tmp_path / "starts" / "start-0")
    root = BENCHMARKS.parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *SMALLEST[name]]
    ran = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "FAILED" not in ran.stdout, ran.stdout
    assert "Traceback" not in ran.stderr, ran.stderr[-3000:]
    assert re.search(r"\d", ran.stdout), "it measured nothing"


def test_what_processes_of_a_machine_send_each_other_is_counted() -> None:
    from ranks import over_loopback

    before, server = over_loopback(), socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as one, server.accept()[0] as other:
        sender = Thread(target=one.sendall, args=(bytes(2**20),))
        sender.start()
        assert sum(len(other.recv(2**16, socket.MSG_WAITALL)) for _ in range(16)) == 2**20
        sender.join()
    assert over_loopback() - before >= 2**20


@pytest.mark.parametrize("name", programs())
def test_a_benchmark_finds_what_it_takes_of_the_package(name: str) -> None:
    """Their runs are slow tests, which few wait for; that a name has moved is seen here."""
    tree = ast.parse((BENCHMARKS / f"{name}.py").read_text())
    taken = [
        (node.module or "", one.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    ]
    for module, what in taken:
        if module.partition(".")[0] == "equipoise":
            home = importlib.import_module(module)
            assert hasattr(home, what) or find_spec(f"{module}.{what}"), f"{module} has no {what}"
