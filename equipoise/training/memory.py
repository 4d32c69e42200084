"""Want of memory in a run, as a sentence that says which settings ask for less and where the run can go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.models.folder import step_folders
from equipoise.ops.out_of_memory import MEMORY_ERRORS, lacks_memory, memory_phrase
from equipoise.types import UserError

LESS = (
    'set training.micro_batch to a part of training.batch_size, training.recompute_activations to "cheap" or true, or '
    'objective.impl to "tiled" (in evaluation, a smaller evaluation.batch_size or evaluation.chunk)'
)


@contextmanager
def explaining_memory(folder: Path) -> Iterator[None]:
    """Raise want of memory in the run in `folder` as UserError."""
    try:
        yield
    except MEMORY_ERRORS as error:
        if not lacks_memory(error):
            raise
        saved = step_folders(folder)
        way = f"go on from {saved[-1]} by --resume with these changed" if saved else "there is no checkpoint yet"
        raise UserError(f"{memory_phrase(error)}, so the run stopped; {LESS}; {way}") from error
