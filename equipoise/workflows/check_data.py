"""`equipoise data check` and `data prepare`: read a whole data set, or re-encode it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.bad_records import printable
from equipoise.data.braces import expand_braces
from equipoise.data.contact_sheet import contact_sheet
from equipoise.data.files import ClassShards
from equipoise.data.files.check import CountTokens, Findings, LeavesNothing, check
from equipoise.data.files.check_parts import check_writer, findings_of
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.image_source import Pictures, decodable
from equipoise.data.files.prepare import LEFT_OUT, Prepare, note_of
from equipoise.data.files.prepare_parts import gather_left_out, prepare_writer
from equipoise.data.files.records import Records, Subset
from equipoise.data.files.webdataset_classes import NAMES, TEMPLATES
from equipoise.data.part_writer import PartWriter
from equipoise.data.shard_writer import NOTE
from equipoise.data.tokenizer import MOST_CONTEXT, CaptionTokenizer
from equipoise.io.atomic import write_text
from equipoise.io.folder_lock import only_writer
from equipoise.io.numbers import hand_over
from equipoise.io.progress import Progress
from equipoise.io.results_folder import Place, folder_of
from equipoise.io.resumable import claim
from equipoise.types import UserError
from equipoise.workflows.engines import Engine, write_parts
from equipoise.workflows.subject import FilePart

FAULTS_SHOWN = 10
FEW_WORDS = 1024  # of a vocabulary
SHEET_IMAGES, SHEET_SIZE, SHEET_CAPTIONS = 16, 192, 3


def check_data(
    parts: Mapping[str, FilePart],
    out: Path,
    tokens: Path | None = None,
    kind: CaptionTokenizer.Config | None = None,
    engine: Engine = Engine(),  # noqa: B008 (frozen)
) -> bool:
    """Read every record, print a summary and write it to `out`; returns whether all records are usable.

    Captions are judged by the tokenizer at `tokens`, or by one of a recipe's `kind`; where neither is known by the
    strictest, WordPiece.
    """
    judge = CaptionJudge(tokens, kind or CaptionTokenizer.Config("wordpiece"))
    sound = True
    for name, (settings, patterns) in parts.items():
        records = settings.records(patterns)
        if not len(records) and not records.faults:
            raise UserError(f"{', '.join(patterns)}: there are no records in it; check the files")
        doing = f"reading {name}".rstrip()
        if engine.is_this_process:
            with Progress(len(records), doing) as progress:
                summary = check(records, progress.update, *judge.open()).summary()
        else:
            summary = _shared_check(records, CheckJob(settings, patterns, judge), out / name, engine, doing).summary()
        report, sheet = out / name / "check.json", out / name / "sheet.png"
        write_text(report, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
        _print(printable(name or ", ".join(patterns)), summary)
        hand_over({name: summary} if name else summary)
        pictures = f" and {sheet}" if _draw_sheet(records, sheet) else ""
        print(f"\nAll of it is in {report}{pictures}")
        sound = sound and not summary["unusable"]
    return sound


@dataclass(frozen=True)
class CaptionJudge:
    """How captions are judged: by the tokenizer at a path, or by one of a kind."""

    tokens: Path | None
    kind: CaptionTokenizer.Config

    def open(self) -> tuple[CountTokens | None, LeavesNothing | None]:
        known = CaptionTokenizer.load(self.tokens, context=MOST_CONTEXT) if self.tokens else None
        judge = known or tokenizer_of_kind(self.kind)
        return _counter(known) if known else None, judge.leaves_nothing if judge.size else None


@dataclass(frozen=True)
class CheckJob:
    """One set of files, where other processes are to read some of it."""

    settings: FileSettings
    patterns: tuple[str, ...]
    judge: CaptionJudge
    folder: Path = Path()

    def __call__(self) -> PartWriter:
        return check_writer(self.settings.records(self.patterns), self.folder, *self.judge.open())

    def digest(self) -> str:
        """Of what is read and how; files that were changed since are others."""
        words = [repr(self.settings), repr(self.judge), *self.patterns]
        for name in (name for pattern in self.patterns for name in expand_braces(pattern)):
            if (path := Path(self.settings.root) / name).exists():
                words.append(f"{path.stat().st_size} {path.stat().st_mtime_ns}")
        return hashlib.sha256("\n".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _shared_check(records: Records, job: CheckJob, out: Path, engine: Engine, doing: str) -> Findings:
    """`check` by several processes; what they read is kept in `out` until all is read."""
    job = replace(job, folder=out / f".checking-{job.digest()}")
    with only_writer(job.folder):
        writer = check_writer(records, job.folder, *job.judge.open())
        write_parts(engine, writer, job, doing)
        found = findings_of(records, writer.files)
    for path in out.glob(".checking-*"):
        shutil.rmtree(path, ignore_errors=True)  # also of other data, that was given up
    return found


@dataclass(frozen=True)
class PrepareJob:
    """One set of files, where other processes are to re-encode some of it."""

    source: FileSettings
    patterns: tuple[str, ...]
    folder: Place
    settings: Prepare

    def __call__(self) -> PartWriter:
        return prepare_writer(self.source.records(self.patterns), self.folder, self.settings)


def prepare_data(
    parts: Mapping[str, FilePart],
    folder: Place,
    settings: Prepare,
    engine: Engine = Engine(),  # noqa: B008 (frozen)
) -> None:
    """Re-encode each set of files as shards in `folder`, in a folder of its own there if there are several."""
    for name, (source, patterns) in parts.items():
        records = source.records(patterns)
        home = folder / name
        writer, place = prepare_writer(records, home, settings), folder_of(home)
        with place.only_writer():
            claim(home, note_of(records, settings), NOTE)
            job = PrepareJob(source, patterns, home, settings)
            write_parts(engine, writer, job, f"preparing {name}".rstrip(), "--per-shard")
            gather_left_out(place)  # also of processes that were stopped before
            for file, lines in zip((NAMES, TEMPLATES), _class_words(source, patterns), strict=False):
                with place.adding(file) as path:
                    write_text(path, "\n".join(lines) + "\n")
        left_out = sum(len(table) for table in place.tables([LEFT_OUT] if place.has(LEFT_OUT) else [], "remove it"))
        written = len(records) - left_out
        named = f"; {left_out:,} that could not be read are named in {LEFT_OUT}" if left_out else ""
        print(f"{written:,} records are in {len(writer.files)} shards (.tar) in {home}{named}")
        counts = {"records": written, "left_out": left_out, "shards": len(writer.files), "folder": str(home)}
        hand_over({name: counts} if name else counts)
        if records.faults:
            print("Some could not be used at all: `equipoise data check` names them")


def _class_words(source: FileSettings, patterns: tuple[str, ...]) -> Sequence[Sequence[str]]:
    """The names of classes and their templates, where the data has such."""
    return source.words(patterns) if isinstance(source, ClassShards) else ()


def tokenizer_of_kind(config: CaptionTokenizer.Config) -> CaptionTokenizer:
    """A tokenizer that leaves nothing of the same captions as one of these settings that has learned from data: that
    depends on how it reads letters, not on the words it knows."""
    return CaptionTokenizer.from_config(replace(config, vocabulary=FEW_WORDS), ["a"])


def _counter(tokens: CaptionTokenizer) -> Callable[[str], int]:
    return lambda caption: int(tokens(caption)[1].sum())


def _draw_sheet(records: Records, path: Path) -> bool:
    """Draw a contact sheet of pictures from all over the data; returns False if there are none."""
    chosen = (
        np.unique(np.linspace(0, len(records) - 1, SHEET_IMAGES).astype(np.int64)) if len(records) else np.array([])
    )
    some = Pictures(decodable(Subset(records, chosen)))
    if not len(some):
        return False
    captions = [some.pair(index).captions[:SHEET_CAPTIONS] for index in range(len(some))]
    contact_sheet(some.images(range(len(some)), SHEET_SIZE), captions, path)
    return True


def _print(title: str, summary: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table("", "", title=escape(title), show_header=False)
    for name, value in summary.items():
        if isinstance(value, int):
            table.add_row(name, f"{value:,}")
        elif isinstance(value, Mapping) and "mean" in value:
            table.add_row(name, ", ".join(f"{part} {number:,}" for part, number in value.items()))
    console.print(table)
    for fault in summary["faults"][:FAULTS_SHOWN]:
        print(f"unusable: {fault['place']}: {fault['reason']}")
    if len(summary["faults"]) > FAULTS_SHOWN:
        print(f"... and {len(summary['faults']) - FAULTS_SHOWN:,} more")
