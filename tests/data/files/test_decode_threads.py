"""Pictures that several threads decode are those that one decodes, and so is what is said of a bad one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pyarrow
import pytest
import torch
from pyarrow import parquet
from some_files import encode, jpeg, picture, write_tar

from equipoise.data.bad_records import BadRecord
from equipoise.data.decode_threads import FEWEST, map_in_threads
from equipoise.data.files.image_source import AT_ONCE
from equipoise.data.files.table import Table
from equipoise.data.files.webdataset import Shards


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def pictures(count: int) -> dict[str, bytes]:
    """Records of three formats, sizes all different."""
    kinds = ("JPEG", "PNG", "WEBP")
    files = {}
    for number in range(count):
        kind = kinds[number % 3]
        shown = picture(30 + number % 13, 40 + number % 7, number)
        files[f"{number:05d}.{kind.lower()}"] = encode(shown, kind)
        files[f"{number:05d}.txt"] = b"a caption"
    return files


def test_pixels_are_those_of_one_picture_at_a_time(tmp_path, threads):
    count = AT_ONCE + 2 * FEWEST
    write_tar(tmp_path / "a.tar", pictures(count))
    source = Shards(test="a.tar", root=str(tmp_path)).build("test")
    order = [*range(count - 1, -1, -2), *range(0, count, 2)]
    found = source.images(order, 20)
    assert found.is_contiguous()
    assert found.shape == (len(order), 3, 20, 20)
    for row, index in zip(found, order, strict=True):
        assert torch.equal(row, source.encoded(index).square(20))
    assert source.images([], 20).shape == (0, 3, 20, 20)


def test_the_first_bad_picture_is_named(tmp_path, threads):
    files = pictures(6 * FEWEST)
    for number in (17, 31):
        files[f"{number:05d}.{('jpeg', 'png', 'webp')[number % 3]}"] = b"no picture"
    write_tar(tmp_path / "a.tar", files)
    source = Shards(train="a.tar", validation="a.tar", test="a.tar", root=str(tmp_path), max_bad=1.0).build("train")
    with pytest.raises(BadRecord, match="record 00017"):
        source.images(range(len(source)), 20)


def test_work_is_spread_where_there_is_enough_of_it(threads):
    together = threading.Barrier(threads, timeout=30)  # passed only by as many threads as are asked for
    done = map_in_threads(lambda number: together.wait() >= 0 and number * number, range(FEWEST * threads))
    assert done == [number * number for number in range(FEWEST * threads)]
    names = map_in_threads(lambda _: threading.current_thread().name, range(FEWEST))
    assert names == [threading.current_thread().name] * FEWEST


def test_rows_of_a_table_are_read_once_whoever_decodes(tmp_path, threads, monkeypatch):
    count = 4 * FEWEST
    table = pyarrow.table({"image": [jpeg(seed=number) for number in range(count)], "caption": ["a caption"] * count})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=FEWEST)
    source = Table(test=str(tmp_path / "a.parquet"), path="image", captions="caption").build("test")
    groups, read = [], parquet.ParquetFile.read_row_group
    monkeypatch.setattr(parquet.ParquetFile, "read_row_group", lambda *a, **k: (groups.append(a[1]), read(*a, **k))[1])
    for start in range(0, len(source), 2 * FEWEST):
        source.images(range(start, min(start + 2 * FEWEST, len(source))), 20)
    assert sorted(groups) == sorted(set(groups))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="without fork")
def test_a_forked_process_decodes_too(threads):
    def both() -> list[int]:
        return map_in_threads(lambda number: len(jpeg(seed=number)), range(FEWEST * threads))

    expected = both()
    child = os.fork()
    if not child:
        os._exit(0 if both() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
