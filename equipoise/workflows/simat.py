"""`equipoise simat`: a picture plus the difference of two words, is it the picture with one word changed?"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from equipoise.analysis.report import AnalysisReport
from equipoise.data.files.simat.write import write_simat
from equipoise.data.scenes.simat_questions import SimatSettings
from equipoise.data.simat_questions import DEV, SPLITS, TEST
from equipoise.evaluation.simat.data import SimatFiles, SimatTask, encode_task, file_task, scene_task
from equipoise.evaluation.simat.examples import write_found
from equipoise.evaluation.simat.plot import draw_simat
from equipoise.evaluation.simat.sweep import Scores, SimatSweep, checked, chosen, named, sweep
from equipoise.io.progress import Progress
from equipoise.io.tables import make_table, print_tables
from equipoise.types import UserError
from equipoise.workflows.subject import Subject

BOTH = "both"


def transform(
    subject: Subject, files: SimatFiles, settings: SimatSettings, lambdas: tuple[float, ...], split: str, out: Path,
    write: Path | None, command: str,
) -> dict[str, SimatSweep]:  # fmt: skip
    """Transform pictures by words and score what is found; print and write."""
    lambdas = checked(lambdas)
    if write is not None and files.tables is not None:
        raise UserError("--write is for transformations of scenes; those of --files are files already")
    whole = file_task(files) if files.tables is not None else scene_task(subject.source(), settings)
    task = _of_split(whole, split)
    model = subject.model()
    if write is not None:
        with Progress(len(task.source), "writing") as progress:
            write_simat(task.questions, task.source, write, model.preprocess.size, progress.update)
    found = sweep(encode_task(model, task), task.questions, lambdas)
    place = chosen(found)
    sentence = _sentence(task, found, place)
    _print(found, place)
    about = {"data": str(files.tables)} if files.tables is not None else {"sources": settings.sources}
    numbers = {
        **subject.facts(), **about, "oracle": task.questions.oracle.name, "database": len(task.questions.keys),
        "numbers": named(found), **{name: _plain(one) for name, one in found.items()},
    }  # fmt: skip
    AnalysisReport("simat", sentence, numbers, draw_simat(found, place, sentence)).write(out, command)
    if place is not None:
        write_found(task, found, place, out)
    return found


def _of_split(task: SimatTask, split: str) -> SimatTask:
    if split == BOTH:
        return task
    some = task.questions.of(split)
    if not some:
        raise UserError(f"there are no transformations of {split}; choose another --split")
    return replace(task, questions=replace(task.questions, asked=some))


def _sentence(task: SimatTask, found: dict[str, SimatSweep], place: int | None) -> str:
    split = TEST if TEST in found else DEV
    one, judge = found[split], task.questions.oracle.name
    if place is None:
        low, high = min(s["all"].score for s in one.scores), max(s["all"].score for s in one.scores)
        return f"SIMAT on {split} is {low:.1f} to {high:.1f} over λ, by {judge}; without dev no λ can be chosen."
    score = one.scores[place]["all"]
    how = " (the largest on dev)" if split == DEV else ", chosen on dev" if DEV in found else ""
    parts = ", ".join(f"{field} {part.score:.1f}" for field, part in one.scores[place].items() if field != "all")
    return (
        f"SIMAT on {split} is {score.score:.1f} ± {score.error:.1f} at λ = {one.lambdas[place]:g}{how}: {parts}; "
        f"finding any picture scores {one.chance['all'].score:.1f}; {score.questions:,} transformations, "
        f"{len(task.questions.keys):,} pictures, judged by {judge}."
    )


def _plain(one: SimatSweep) -> dict[str, object]:
    def scores(some: Scores) -> dict[str, object]:
        return {field: asdict(score) for field, score in some.items()}

    by_lambda = [{"lambda": lam, **scores(some)} for lam, some in zip(one.lambdas, one.scores, strict=True)]
    return {"chance": {field: score.score for field, score in one.chance.items()}, "by_lambda": by_lambda}


def _print(found: dict[str, SimatSweep], place: int | None) -> None:
    for split in (split for split in SPLITS if split in found):
        one = found[split]
        columns = ("λ", *(f"{field}\n{score.questions:,}" for field, score in one.chance.items()))
        rows = [
            (f"{lam:g}", *(f"{scores[field].score:.1f}" for field in one.chance))
            for lam, scores in zip(one.lambdas, one.scores, strict=True)
        ]
        rows.append(("any", *(f"{score.score:.1f}" for score in one.chance.values())))
        bold = () if place is None else (place,)
        print_tables(make_table(columns, rows, title=f"SIMAT score on {split}", text_columns=0, bold=bold))
