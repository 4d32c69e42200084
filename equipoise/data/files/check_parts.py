"""The looks of `data check` in numbered files, so that several processes may share them and stopped work goes on.

00000.safetensors    records, how many there are in it
00000.json           looks: what `Look` holds of each that can be used; faults: place and reason of the others
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from equipoise.data.bad_records import BadRecord, BadRecordCount, Fault
from equipoise.data.files.check import CountTokens, Findings, LeavesNothing, Look, look_at
from equipoise.data.files.records import Records
from equipoise.data.part_writer import PartWriter
from equipoise.io.resumable import NumberedFiles, write_arrays

PER_FILE, AT_ONCE = 1000, 100  # records


def check_writer(
    records: Records, folder: Path, count_tokens: CountTokens | None, leaves_nothing: LeavesNothing | None
) -> PartWriter:
    def fill(path: Path, batches: Iterator[range]) -> None:
        words: dict[str, list[Any]] = {"looks": [], "faults": []}
        count = 0
        for batch in batches:
            count += len(batch)
            for index in batch:
                try:
                    words["looks"].append(asdict(look_at(records, index, count_tokens, leaves_nothing)))
                except BadRecord as error:
                    words["faults"].append(asdict(error.fault))
        write_arrays(path, {"records": torch.tensor(count)}, words)

    bad = BadRecordCount(1.0, len(records))  # none are too many to be counted
    return PartWriter(NumberedFiles(folder, len(records), PER_FILE), fill, AT_ONCE, bad)


def findings_of(records: Records, files: NumberedFiles) -> Findings:
    """What `check` would have found, from the files."""
    found = Findings.begun(records)
    for words in files.words("remove this folder"):
        for look in words["looks"]:
            found.add(Look(**look))
        found.faults += [Fault(**fault) for fault in words["faults"]]
    return found
