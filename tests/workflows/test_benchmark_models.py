"""`equipoise benchmark` of a transformers folder, of a set that is fetched from a hub, and on two processes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import torch
from class_pictures import write_class_folders
from local_hub import local_hub
from PIL import Image
from small_clip import small_tokens, small_transformers, write_transformers

from equipoise.cli import main
from equipoise.data.benchmark_sets.class_folders import read_class_folders
from equipoise.data.benchmark_sets.class_words import class_words
from equipoise.evaluation.encoding import fill
from equipoise.workflows.load import load

ROOT = Path(__file__).parents[2]
SUITE = "[colours]\ntask = 'zero-shot'\ndata = 'colours'\n"


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    write_class_folders(tmp_path / "sets" / "colours", each=9)
    (tmp_path / "sets" / "suite.toml").write_text(SUITE)
    return tmp_path / "sets"


def words(sets: Path, out: Path, *models: object) -> list[str]:
    named = [str(model) for model in models]
    return ["benchmark", *named, "--suite", str(sets / "suite.toml"), "--data", str(sets), "--out", str(out)]


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, on the processor."""
    known = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=known | environment)


@torch.no_grad()
def test_a_transformers_folder_scores_as_transformers_own_code(transformers, sets: Path, tmp_path: Path) -> None:
    tokens = small_tokens()
    peer = small_transformers(transformers, tokens)
    folder = write_transformers(tmp_path / "theirs", peer, tokens, transformers)
    assert main(words(sets, tmp_path / "out", folder)) == 0
    (cell,) = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    found = read_class_folders(sets / "colours", None)
    model = load(folder)  # prepares pictures and texts; the vectors below are transformers'
    pixels = model.preprocess.normalised(found.source.images(range(len(found.labels)), model.preprocess.side))
    images = peer(pixel_values=pixels, input_ids=torch.tensor([[tokens.start, tokens.end]])).image_embeds
    prompts = fill(found.templates, found.names)
    ids = [tokens(several, pad_to_context=True)[0] for several in prompts]
    texts = torch.stack([
        torch.nn.functional.normalize(peer(pixel_values=pixels[:1], input_ids=one).text_embeds.mean(0), dim=0)
        for one in ids
    ])  # fmt: skip
    right = ((images @ texts.T).argmax(1) == torch.tensor(found.labels)).double().mean().item()
    assert cell["metrics"]["acc1"] == pytest.approx(right, abs=1e-6)
    assert cell["model"] == str(folder)


@pytest.mark.slow
def test_two_processes_give_the_cells_of_one(sets: Path, finished_run: Path, tmp_path: Path) -> None:
    assert main(words(sets, tmp_path / "one", finished_run)) == 0
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "equipoise.cli")
    done = run(*launch, *words(sets, tmp_path / "two", finished_run))
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (json.loads((tmp_path / name / "benchmark.json").read_text()) for name in ("one", "two"))
    assert [cell["equipoise"]["key"] for cell in one] == [cell["equipoise"]["key"] for cell in two]
    for a, b in zip(one, two, strict=True):
        assert b["metrics"] == pytest.approx(a["metrics"], abs=1e-6)
    assert done.stdout.count("The page is") == 1  # one process reports
    # the same again finds its cells, on both
    assert run(*launch, *words(sets, tmp_path / "two", finished_run)).returncode == 0
    assert json.loads((tmp_path / "two" / "benchmark.json").read_text()) == two


def write_shard(file: Path, labels: list[int]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as tar:
        for number, label in enumerate(labels):
            picture = io.BytesIO()
            Image.new("RGB", (32, 32), (25 * label, 255 - 20 * label, 7 * number)).save(picture, "PNG")
            for ending, content in (("png", picture.getvalue()), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{file.stem}-{number:04d}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


@pytest.mark.slow
def test_a_missing_set_is_fetched_whole_where_download_says_so(finished_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: --download is NOT tested")
    remote, root = tmp_path / "remote", tmp_path / "sets"
    root.mkdir()
    known = class_words("cifar10")
    for name, lines in (("classnames.txt", known.names), ("zeroshot_classification_templates.txt", known.templates)):
        (remote / name).parent.mkdir(exist_ok=True)
        (remote / name).write_text("".join(f"{line}\n" for line in lines))
    write_shard(remote / "test" / "0.tar", list(range(10)))
    write_shard(remote / "test" / "1.tar", [1, 2, 3])
    (remote / "train").mkdir()
    (remote / "train" / "0.tar").write_bytes(b"never asked for")
    call = ["-m", "equipoise", "benchmark", finished_run, "--suite", "cifar10", "--data", root, "--out", tmp_path / "o"]
    home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
    with local_hub(remote, "clip-benchmark/wds_vtab-cifar10") as (address, asked):
        refused = run(*call, HF_ENDPOINT=address, **home)
        assert refused.returncode == 2
        assert "--download (hub: clip-benchmark/wds_vtab-cifar10)" in refused.stderr
        assert asked == []  # nothing is fetched unless it was asked for
    with local_hub(remote, "clip-benchmark/wds_vtab-cifar10", broken=("test/1.tar",)) as (address, asked):
        stopped = run(*call, "--download", HF_ENDPOINT=address, **home)
        assert stopped.returncode == 2, stopped.stderr[-2000:]
        assert "cannot be fetched from the hub" in stopped.stderr
        assert "Traceback" not in stopped.stderr
        assert not (root / "wds_vtab-cifar10").exists()  # a part of a set is no set
    with local_hub(remote, "clip-benchmark/wds_vtab-cifar10") as (address, asked):
        done = run(*call, "--download", HF_ENDPOINT=address, **home)
        assert done.returncode == 0, done.stderr[-2000:]
        assert not any("train" in path for path in asked)
    (cell,) = json.loads((tmp_path / "o" / "benchmark.json").read_text())
    assert cell["equipoise"]["pictures"] == 13
    again = run(*call, "--download", HF_ENDPOINT="http://127.0.0.1:9", **home)  # all of it is here
    assert again.returncode == 0, again.stderr[-2000:]
