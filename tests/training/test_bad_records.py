"""Bad records in training: counted on where a run goes on, so that where it was stopped decides nothing."""

from __future__ import annotations

import io
import json
import signal
import tarfile
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_run import RECIPE, SmallRun, sent

from equipoise.config import load_run
from equipoise.data.files import file_source
from equipoise.io.digests import renew_digest
from equipoise.models.folder import step_folders
from equipoise.types import UserError

pytestmark = pytest.mark.filterwarnings("ignore:skipped")
SHARDS = """
[data]
name = "shards"
train = "{folder}/t.tar"
validation = "{folder}/v.tar"
max_bad = {max_bad}
"""


def write_shard(path: Path, count: int, bad: Collection[int] = (), captions: dict[int, str] | None = None) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(buffer, "JPEG")
    with tarfile.open(path, "w") as tar:
        for number in range(count):
            picture = buffer.getvalue()[: 300 if number in bad else None]
            text = (captions or {}).get(number, f"a red fish and {number} stars").encode()
            for name, data in ((f"{number:03d}.jpg", picture), (f"{number:03d}.txt", text)):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


def run_on(folder: Path, name: str, bad: Collection[int] = (), max_bad: float = 0.5, kind: str = "bpe") -> SmallRun:
    """Eight steps of 8 records, on 40 records: an epoch and a half."""
    write_shard(folder / "v.tar", 8)
    if not (folder / "t.tar").exists():
        write_shard(folder / "t.tar", 40, bad)
    head, _, rest = RECIPE.partition("[data]")
    recipe = folder / "shards.toml"
    recipe.write_text(head + SHARDS.format(folder=folder, max_bad=max_bad) + rest[rest.index("[tokens]") :])
    run = SmallRun(load_run(recipe, [f"tokens.kind={kind}"]), folder / name)
    run.folder.mkdir()
    return run


def stored(run: SmallRun) -> list[dict[str, int]]:
    return json.loads((step_folders(run.folder)[-1] / "training.json").read_text())["bad_records"]


def test_the_count_goes_on_wherever_a_run_is_stopped(tmp_path):
    alone = run_on(tmp_path, "alone", bad=range(0, 40, 5))
    alone.go()
    assert stored(alone)[0]["seen"] == 24  # of the second epoch
    assert stored(alone)[0]["bad"] > 0
    run = run_on(tmp_path, "run")
    run.go({2: sent(signal.SIGTERM)})
    assert stored(run)[0]["seen"] == 16
    run.go(in_data={5: sent(signal.SIGTERM)}, resume=True)  # a batch came, but no step was made with it
    assert stored(run)[0]["seen"] == 32
    run.go({7: sent(signal.SIGTERM)}, resume=True)
    run.go(resume=True)
    assert stored(run) == stored(alone)


def test_a_run_is_ended_at_the_same_step_whether_or_not_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(file_source, "GLANCE", 0)  # which would not let it begin
    ended = []
    for name, stops in (("alone", ()), ("run", (1, 2))):
        run = run_on(tmp_path, name, bad=range(0, 40, 2), max_bad=0.1)
        for stop in stops:
            run.go({stop: sent(signal.SIGTERM)}, resume=stop > 1)
        with pytest.raises(UserError, match="records cannot be used") as error:
            run.go(resume=bool(stops))
        ended.append(str(error.value).partition(" records")[0])
    assert ended[0] == ended[1]


def test_a_checkpoint_without_a_count_is_resumed_and_one_with_nonsense_refused(tmp_path):
    run = run_on(tmp_path, "run", bad=range(0, 40, 5))
    run.go({4: sent(signal.SIGTERM)})
    file = step_folders(run.folder)[-1] / "training.json"
    progress = json.loads(file.read_text())
    file.write_text(json.dumps({**progress, "bad_records": [{"seen": "many"}]}))
    renew_digest(file.parent, file.name)
    with pytest.raises(UserError, match=r"cannot continue .*bad_records"):
        run.go(resume=True)
    del progress["bad_records"]  # as it was before it was kept
    file.write_text(json.dumps(progress))
    renew_digest(file.parent, file.name)
    assert run.go(resume=True).step == 8


def test_captions_that_wordpiece_empties_get_a_stand_in_and_resume_passes_them(tmp_path):
    empty = dict(enumerate(["\u200b", "\0", "\x01", "\x7f", "\u0301", "\ufffd"], start=7))
    write_shard(tmp_path / "t.tar", 40, captions=empty)
    run = run_on(tmp_path, "run", kind="wordpiece")
    with pytest.warns(UserWarning, match=r"skipped .*t\.tar, record 0\d\d: the tokenizer leaves nothing"):
        run.go({5: sent(signal.SIGTERM)})
    assert stored(run) == [{"seen": 40, "bad": len(empty)}]
    assert run.go(resume=True).step == 8
    other = run_on(tmp_path, "other")  # bytes of any kind are read
    other.go({5: sent(signal.SIGTERM)})
    assert stored(other) == [{"seen": 40, "bad": 0}]
