"""What is done in a folder and would have to be done again: no failure may take it away.

checkpoints/step-*   states that a run goes on from
fold.json            beside a judge: `trained`, once it is; only its best weights are left then
keep.json            of the keep file that judges ended with
.scoring-*           points of several processes
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from equipoise.data.keep.file import NOTE
from equipoise.io.json_files import read_json_table
from equipoise.models.folder import CHECKPOINTS, STEP
from equipoise.types import UserError

FOLD, TRAINED = "fold.json", "trained"
SCORES = ".scoring-"
DONE = (f"{CHECKPOINTS}/{STEP}*", NOTE, f"{SCORES}*")


class NothingToKeep(UserError):
    """Ends work whose results are of no use, though they are finished: judges that know nothing."""


def read_fold(folder: Path) -> dict[str, Any]:
    """What is noted beside a judge."""
    return read_json_table(folder / FOLD, "choose another --out")


def is_trained(folder: Path) -> bool:
    """Whether the judge in `folder` is trained to its end."""
    return bool(read_fold(folder).get(TRAINED))


def holds_finished_work(folder: Path) -> bool:
    """Whether something in `folder`, or in a folder of it, is done."""
    if any(any(folder.rglob(name)) for name in DONE):
        return True
    return any(_is_trained(note.parent) for note in folder.rglob(FOLD))


def _is_trained(folder: Path) -> bool:
    try:
        return is_trained(folder)
    except UserError:  # a note that cannot be read: whoever asks for that judge is told
        return True
