"""What `data check` counts, against a data set whose faults are known."""

from __future__ import annotations

import json

import numpy as np
from some_files import encode, jpeg, picture, records, write_tar

from equipoise.data.files import Shards
from equipoise.data.files.check import check, spread


def test_everything_is_counted(tmp_path):
    files = {
        "a.jpg": jpeg(20, 30, 1), "a.txt": b"one two\nthree",
        "b.jpg": jpeg(20, 30, 1), "b.txt": b"one two",
        "c.png": encode(picture(50, 40, 2), "PNG"), "c.txt": b"four five six", "c.json": b'{"label": "cat"}',
        "d.jpg": jpeg()[:200], "d.txt": b"cut",
        "e.jpg": jpeg(),
    }  # fmt: skip
    path = write_tar(tmp_path / "a.tar", files)
    done = []
    found = check(Shards().records((str(path),)), done.append, count_tokens=len).summary()
    assert done == [1, 2, 3, 4]
    assert (found["records"], found["usable"], found["unusable"]) == (5, 3, 2)
    assert found["width"] == {"mean": 33.33, "least": 30, "5%": 30, "median": 30, "95%": 40, "most": 40}
    assert found["height"]["most"] == 50
    assert found["captions an image"]["mean"] == 1.33
    assert found["words a caption"]["most"] == 3
    assert found["tokens a caption"]["most"] == len("four five six")
    assert found["labels"] == {"cat": 1}
    assert (found["captions"], found["captions that are copies"]) == (4, 1)
    assert found["most frequent captions"] == {"one two": 2}
    assert found["images that are copies"] == 1
    assert found["copied images"] == {f"{path}, record a": [f"{path}, record b"]}
    assert [fault["place"] for fault in found["faults"]] == [f"{path}, record e", f"{path}, record d"]
    json.dumps(found)


def test_nothing_usable_is_no_error(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"a.txt": b"x"})
    found = check(Shards().records((str(path),))).summary()
    assert (found["records"], found["usable"]) == (1, 0)
    assert found["width"] == {}


def test_spread():
    values = np.random.default_rng(0).integers(0, 1000, 501).tolist()
    found = spread(values)
    assert found["median"] == sorted(values)[250]
    assert (found["least"], found["most"]) == (min(values), max(values))


def test_a_sound_set_has_no_faults(tmp_path):
    path = write_tar(tmp_path / "a.tar", records(5))
    assert not check(Shards().records((str(path),))).summary()["faults"]
