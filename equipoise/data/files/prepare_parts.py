"""The shards of `data prepare` as numbered files, so that several processes may share them and stopped work goes on.

00000.tar                  a shard, as one process writes it
.left_out-00000.json       what could not be used of it, until `gather_left_out` adds it to left_out.json
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from equipoise.data.bad_records import BadRecordCount
from equipoise.data.files.prepare import LEFT_OUT, Prepare, samples, write_left_out
from equipoise.data.files.records import Records
from equipoise.data.part_writer import PartWriter
from equipoise.data.shard_writer import write_shard
from equipoise.io.results_folder import Folder, Place
from equipoise.io.resumable import NumberedFiles

AT_ONCE = 100  # records
PARTS = ".left_out-*.json"  # of one shard each: two processes that change one file would lose what the other wrote


def prepare_writer(records: Records, folder: Place, settings: Prepare) -> PartWriter:
    def fill(path: Path, batches: Iterator[range]) -> None:
        left_out = path.with_name(PARTS.replace("*", path.stem))
        write_shard(path, samples(records, chain.from_iterable(batches), settings, left_out))

    files = NumberedFiles(folder, len(records), settings.per_shard, ".tar")
    return PartWriter(files, fill, AT_ONCE, BadRecordCount(1.0, len(records)))  # none are too many to be left out


def gather_left_out(folder: Folder) -> None:
    """Add what was left out of each shard to left_out.json, in the order of the shards."""
    there = folder.names()
    parts = sorted(fnmatch.filter(there, PARTS))
    if parts:
        known = [LEFT_OUT] if LEFT_OUT in there else []
        reasons = {
            place: reason for table in folder.tables([*known, *parts], "remove it") for place, reason in table.items()
        }
        with folder.adding(LEFT_OUT) as path:
            write_left_out(path, reasons)
    for part in parts:
        folder.remove(part)
