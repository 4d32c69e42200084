"""What one of several processes does: open the job once, then write the files it is told to."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from equipoise import __version__
from equipoise.data.bad_records import BadRecordCount, Fault
from equipoise.data.part_writer import PartWriter
from equipoise.io.digests import verifying
from equipoise.io.progress import quiet
from equipoise.io.resumable import NumberedFiles
from equipoise.ops.out_of_memory import MEMORY_ERRORS, lacks_memory, memory_phrase
from equipoise.settings.trust import current_trust, trusting
from equipoise.training.device import choosing_device, torch_device
from equipoise.types import UserError

Job = Callable[[], PartWriter]  # can be pickled
TRIES = 3  # of a file whose writers die
LESS = "choose a smaller --batch-size or fewer --processes and start again: what is finished is kept"


@dataclass(frozen=True)
class Surroundings:
    """What a process must have in common with the one that was started by hand."""

    folder: str  # paths are relative to it
    device: str
    packages: tuple[str, ...]
    commands: tuple[str, ...]
    pipes: bool
    versions: tuple[str, str]

    @classmethod
    def here(cls) -> Surroundings:
        trust = current_trust()
        told = (trust.packages, tuple(trust.commands), trust.pipes)
        return cls(os.getcwd(), torch_device("auto").type, *told, (__version__, torch.__version__))

    @contextmanager
    def entered(self) -> Iterator[None]:
        if (versions := (__version__, torch.__version__)) != self.versions:
            raise UserError(
                f"a process has equipoise and torch {' and '.join(versions)}, and that which was started "
                f"{' and '.join(self.versions)}; install the same on all machines"
            )
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise UserError(
                f"{self.folder} is not on every machine ({error.strerror}); start in a folder that all share"
            ) from error
        with trusting(self.packages, self.commands, self.pipes), choosing_device(self.device), quiet():
            yield


@dataclass(frozen=True)
class PartDone:
    """What became of one file."""

    number: int
    seen: int = 0
    faults: tuple[Fault, ...] = ()  # as many as there were, the last of them for all
    warned: tuple[str, ...] = ()
    failed: str = ""  # the sentence of a UserError

    def accept(self, bad: BadRecordCount) -> None:
        """Warn and count here what was warned of and counted there. Raises UserError as it was raised there."""
        for sentence in self.warned:
            warnings.warn(sentence, stacklevel=2)
        if self.failed:
            raise UserError(self.failed)
        bad.add(self.seen, self.faults)


class Worker:
    """One process: its model and its data, opened for its first file."""

    def __init__(self, job: Job, around: Surroundings, threads: int):
        self.job, self.around, self.threads = job, around, threads
        self._writer: PartWriter | None = None

    def write(self, number: int) -> PartDone:
        """Write one file. A UserError is handed back as its sentence: what pickles it need not know our classes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            try:
                with self.around.entered():
                    return self._write(number, caught)
            except UserError as error:
                return PartDone(number, warned=_sentences(caught), failed=str(error))
            except MEMORY_ERRORS as error:
                if not lacks_memory(error):
                    raise
                return PartDone(number, warned=_sentences(caught), failed=f"{memory_phrase(error)}; {LESS}")

    def _write(self, number: int, caught: list[warnings.WarningMessage]) -> PartDone:
        if self._writer is None:
            torch.set_num_threads(self.threads)
            with verifying(False):  # the process that was started by hand has verified the model, and told of it
                self._writer = self.job()
            if not self._writer.files.folder.is_here():
                raise UserError(
                    f"{self._writer.files.place} is not on every machine; give a folder that all machines share"
                )
        warnings.filterwarnings("always", category=UserWarning)
        bad, before = self._writer.bad, self._writer.bad.tally
        with _tried(self._writer.files, number):
            self._writer.write(number)
        count = bad.tally.bad - before.bad
        faults = (bad.last,) * count if bad.last else ()
        return PartDone(number, bad.tally.seen - before.seen, faults, _sentences(caught))


@contextmanager
def _tried(files: NumberedFiles, number: int) -> Iterator[None]:
    """Count, beside the file, those who began it: what kills its writer every time must end."""
    folder, name = files.folder, files.name(number)
    marks = [f".{name}-begun.{tried}.tmp" for tried in range(1, TRIES + 1)]
    mark = next((mark for mark in marks if not folder.has(mark)), None)
    if mark is None:
        raise UserError(f"{TRIES} processes died while they wrote {files.place / name} (no memory left?); {LESS}")
    folder.mark(mark)
    try:
        yield
    finally:
        for mark in marks:
            folder.remove(mark)


def _sentences(caught: list[warnings.WarningMessage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(one.message) for one in caught))
