"""`embed`, `regions` and `data prepare` into S3, asked of a real server of its protocol on this machine (moto)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from slow_parts import contents
from test_index_workflow import model_in, shard
from test_store_outputs import command

from equipoise.cli import main
from equipoise.data.features import FeatureFiles

if any(find_spec(name) is None for name in ("s3fs", "moto", "flask", "webdataset")):
    pytest.skip("S3 is not tried: pip install s3fs 'moto[server]' 'equipoise[shards]'", allow_module_level=True)
pytestmark = pytest.mark.slow

BUCKET = "s3://bucket"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server with one bucket, which s3fs finds in the environment, as it does elsewhere."""
    from moto.server import ThreadedMotoServer

    started = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "some", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {"AWS_ENDPOINT_URL": f"http://{host}:{port}", **keys}.items():
            environment.setenv(name, value)
        files().mkdir(BUCKET)
        yield f"http://{host}:{port}"
        files().clear_instance_cache()
    started.stop()


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return model_in(tmp_path_factory.mktemp("model"), 0)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return shard(tmp_path_factory.mktemp("data") / "a.tar", 9)


def files():
    import s3fs

    return s3fs.S3FileSystem(use_listings_cache=False)


def objects(folder: str) -> dict[str, bytes]:
    """All objects of a folder, hidden ones too."""
    store = files()
    return {path.rpartition("/")[2]: store.cat_file(path) for path in store.find(folder)}


def written(folder: str) -> dict[str, object]:
    """When each object was put there."""
    found = files().find(folder, detail=True)
    return {path.rpartition("/")[2]: entry["LastModified"] for path, entry in found.items()}


@pytest.mark.parametrize("engine", ["one", "two", "ray"])
@pytest.mark.parametrize("name", ["embed", "regions", "prepare"])
def test_the_bytes_of_a_disk(server, name, engine, model, data, tmp_path):
    if engine == "ray" and find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'equipoise[ray]'")
    more = {"one": [], "two": ["--processes", "2"], "ray": ["--engine", "ray", "--processes", "1"]}[engine]
    store = f"{BUCKET}/{name}/{engine}"
    assert main(command(name, model, data, tmp_path / "disk")) == 0
    assert main([*command(name, model, data, store), *more]) == 0
    assert objects(store) == contents(tmp_path / "disk")


def test_a_killed_command_is_gone_on_with_and_nothing_is_put_twice(server, model, tmp_path):
    many, store = shard(tmp_path / "a.tar", 60), f"{BUCKET}/killed"
    words = ["embed", str(model), str(many), "--per-shard", "1", "--out"]
    running = subprocess.Popen([sys.executable, "-m", "equipoise", *words, store], env=os.environ)
    while len(files().find(store)) < 6 and running.poll() is None:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert main([*words, str(tmp_path / "disk")]) == 0
    left, whole = objects(store), contents(tmp_path / "disk")
    assert left
    assert left == {name: whole[name] for name in left}, "what is seen is whole"
    before = written(store)
    time.sleep(1.1)  # moments are whole seconds there
    assert main([*words, store]) == 0
    assert objects(store) == whole
    done = [name for name in left if name.endswith(".safetensors")]
    assert {name: written(store)[name] for name in done} == {name: before[name] for name in done}


def test_features_are_read_back(server, model, data, tmp_path):
    assert main(command("embed", model, data, f"{BUCKET}/read")) == 0
    for address in (f"{BUCKET}/read", f"{BUCKET}/read/{{00000..00004}}.safetensors"):
        source = FeatureFiles.Config(train=address, cache=str(tmp_path)).build("train")
        assert len(source) == 9
        assert source.pair(8).captions


def test_no_bucket_another_job_and_no_permission(server, model, data, capsys):
    def told(*words: str) -> str:
        capsys.readouterr()
        assert main([*words]) == 2
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("equipoise: ")]
        assert len(lines) == 1
        return lines[0]

    missing = told(*command("embed", model, data, "s3://nowhere/x"))
    assert "s3://nowhere/x: there is no such bucket or file (The specified bucket does not exist)" in missing
    assert main(command("embed", model, data, f"{BUCKET}/taken")) == 0
    other = told(*command("embed", model, data, f"{BUCKET}/taken"), "--half")
    assert f"other settings (half; see {BUCKET}/taken/embedding.json)" in other
    asked(server, "0")  # from now on keys must be known
    try:
        assert f"{BUCKET}/x: this is not allowed (" in told(*command("embed", model, data, f"{BUCKET}/x"))
    finally:
        asked(server, "inf")


def asked(server: str, without_keys: str) -> None:
    """Tell the server how many requests it answers without looking at their keys."""
    plain = {"Content-Type": "text/plain"}
    request = urllib.request.Request(f"{server}/moto-api/reset-auth", without_keys.encode(), plain, method="POST")
    urllib.request.urlopen(request).close()
