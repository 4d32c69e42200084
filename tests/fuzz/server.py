"""Runs cases in children of a process that has imported everything, so that a case costs milliseconds and harms nobody.

A child does a few cases one after the other, under a limit of memory and a clock, and reports each by a line; one that
dies or hangs costs its case alone. What a case printed is caught.

    fine         it went through
    sentence     the user was told in one sentence what is wrong
    TRACEBACK    an exception that is no sentence
    UNCLEAR      several lines, or the address of an object, where a sentence was due
    HANG         no end within the time allowed
    CRASH        the process died
    SILENT       it went through, and must not have
"""

from __future__ import annotations

import json
import os
import re
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from equipoise.types import UserError

Case = dict[str, Any]
FAILURES = ("TRACEBACK", "UNCLEAR", "HANG", "CRASH", "SILENT")
SECONDS = 10.0  # of the processor for a case, so that a busy machine makes no failures
PATIENCE = 180.0  # by the clock, for one that waits
MEMORY = 3 << 30  # beyond what the parent has
BATCH = 25
NOISE = re.compile(r"<[\w.]+ object at 0x|0x[0-9a-f]{8,}")


class Hang(BaseException):
    """The clock of a case has run out."""


class Silent(BaseException):
    """A case went through that must not have."""


class Unclear(BaseException):
    """The user was told something, but not in one sentence."""


@dataclass(frozen=True)
class Outcome:
    kind: str
    where: str = ""  # of a failure: the exception and the innermost function of ours
    said: str = ""
    seconds: float = 0.0  # of the processor

    @property
    def failed(self) -> bool:
        return self.kind in FAILURES

    @property
    def signature(self) -> str:
        return f"{self.kind} {self.where}".strip()


@dataclass
class Child:
    process: int
    pipe: int
    cases: list[Case]
    done: int = 0
    text: bytes = b""
    since: float = field(default_factory=time.monotonic)


Run = Callable[[Case, Path], None]


def outcomes(
    cases: Iterable[Case], run: Run, jobs: int = 1, scratch: Path | None = None
) -> Iterator[tuple[Case, Outcome]]:
    """What becomes of each case; those of one child come in order, others in between."""
    waiting, again = iter(cases), list[list[Case]]()
    home = Path(tempfile.mkdtemp(prefix="equipoise-fuzz-", dir=scratch))
    watched = selectors.DefaultSelector()
    try:
        while True:
            while len(watched.get_map()) < jobs and (batch := again.pop() if again else list(islice(waiting, BATCH))):
                child = _start(batch, run, home, watched)
                watched.register(child.pipe, selectors.EVENT_READ, child)
            if not watched.get_map():
                return
            for key, _ in watched.select(timeout=1.0):
                yield from _read(key.data, watched, again)
            for key in list(watched.get_map().values()):
                if time.monotonic() - key.data.since > PATIENCE:
                    os.kill(key.data.process, signal.SIGKILL)  # its end is read as that of a child that died
                    key.data.since = float("inf")
    finally:
        for key in list(watched.get_map().values()):
            os.kill(key.data.process, signal.SIGKILL)
            os.waitpid(key.data.process, 0)
        shutil.rmtree(home, ignore_errors=True)


def _start(batch: list[Case], run: Run, home: Path, watched: selectors.BaseSelector) -> Child:
    sys.stdout.flush()
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return Child(process, reader, batch)
    try:
        for key in watched.get_map().values():
            os.close(key.data.pipe)
        _work(batch, run, home, writer)
    finally:
        os._exit(0)


def _read(child: Child, watched: selectors.BaseSelector, again: list[list[Case]]) -> Iterator[tuple[Case, Outcome]]:
    data = os.read(child.pipe, 1 << 16)
    child.text += data
    while b"\n" in child.text:
        line, _, child.text = child.text.partition(b"\n")
        child.since = time.monotonic()
        child.done += 1
        yield child.cases[child.done - 1], Outcome(**json.loads(line))
    if data:
        return
    watched.unregister(child.pipe)
    os.close(child.pipe)
    _, status = os.waitpid(child.process, 0)
    if child.done < len(child.cases) and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hung = child.since == float("inf")
        yield child.cases[child.done], Outcome("HANG") if hung else Outcome("CRASH", signal.Signals(number).name)
        child.done += 1
    if rest := child.cases[child.done :]:
        again.append(rest)


def _work(batch: list[Case], run: Run, home: Path, writer: int) -> None:
    own = Path(tempfile.mkdtemp(dir=home))
    caught = os.open(own / "printed", os.O_RDWR | os.O_CREAT)
    for number in (1, 2):
        os.dup2(caught, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    here = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (here + MEMORY, here + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _hang)
    for number, case in enumerate(batch):
        place = own / str(number)
        place.mkdir()
        os.chdir(place)
        os.ftruncate(caught, 0)
        outcome = judged(case, place, run, own / "printed")
        os.chdir(own)
        shutil.rmtree(place, ignore_errors=True)
        os.write(writer, json.dumps(vars(outcome)).encode() + b"\n")
        if outcome.failed:  # whatever it left behind must not touch the next one
            break
    shutil.rmtree(own, ignore_errors=True)


def _hang(*_: object) -> None:
    raise Hang


def judged(case: Case, place: Path, run: Run, printed: Path) -> Outcome:
    """Do a case and say what became of it."""
    begun = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        run(case, place)
        kind, where, said = "fine", "", ""
    except UserError as error:
        kind, where, said = _told(str(error))
    except Hang as error:
        kind, where, said = "HANG", _place(error), ""
    except Silent as error:
        kind, where, said = "SILENT", str(error), ""
    except Unclear as error:
        kind, where, said = _told(str(error))
    except BaseException as error:  # a panic of Rust is no Exception
        signal.setitimer(signal.ITIMER_PROF, 0)
        kind, where = "TRACEBACK", f"{type(error).__name__} {_place(error)}"
        said = str(error)[:300]
    signal.setitimer(signal.ITIMER_PROF, 0)
    return Outcome(kind, where, said[:300], time.process_time() - begun)


def _told(sentence: str) -> tuple[str, str, str]:
    if NOISE.search(sentence):
        return "UNCLEAR", "the address of an object", sentence
    if "\n" in sentence.strip():
        return "UNCLEAR", "several lines", sentence
    return "sentence", "", sentence


def _place(error: BaseException) -> str:
    """The innermost function of ours that it went through."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/equipoise/" in frame.filename]
    if not ours:
        return "outside"
    return f"{ours[-1].filename.rpartition('/equipoise/')[2]}:{ours[-1].name}"
