"""Decisions by hand on a keep file that is about to be written anew: they are on captions, so they outlive the
probabilities that they were made on.

They are written for the new file before it is, so that a run which is killed in between finds them of its own file when
it is started again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from equipoise.data.keep.decisions import DECISIONS, content_of, digest_of_table, read_decisions
from equipoise.data.keep.file import KeepTable, read_keep
from equipoise.data.keep.save_decisions import save_decisions
from equipoise.types import UserError


def carry_decisions(folder: Path, table: KeepTable) -> None:
    """Make `decisions.json` in a folder be on `table`, where it is on the keep file there and that is of the same
    captions; what goes with the former probabilities is told. Elsewhere it stays as it is, and is refused when it is
    read."""
    path = folder / DECISIONS
    if not path.exists():
        return
    digest = digest_of_table(table)
    try:
        if content_of(path)["keep"] == digest:
            return
        before = read_keep(folder)[0]
        decisions = read_decisions(folder, before)
    except UserError:
        return
    if not _same_captions(before, table):
        return
    save_decisions(folder, table, replace(decisions, threshold=None), digest)
    told = f"{path}: {len(decisions.keep):,} decisions by hand stay, for they are on captions"
    if decisions.threshold is not None:
        told += f"; the threshold {decisions.threshold:g} goes, for it was one of other probabilities"
    print(told, flush=True)


def _same_captions(one: KeepTable, other: KeepTable) -> bool:
    return list(one.keys) == list(other.keys) and all(
        np.array_equal(a, b) for a, b in ((one.captions, other.captions), (one.fingerprints, other.fingerprints))
    )
