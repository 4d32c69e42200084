"""`equipoise vqa`: questions about pictures, answered by a small head on a frozen model's features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from equipoise.analysis.report import AnalysisReport
from equipoise.data.files.vqa_files import read_unanswered, write_questions, write_submission
from equipoise.data.source import Source
from equipoise.data.vqa_questions import Question, image_places
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.vqa.data import VqaFiles, encoded, questions_of
from equipoise.evaluation.vqa.plot import draw_vqa
from equipoise.evaluation.vqa.probe import OnStep, VqaProbeSettings
from equipoise.evaluation.vqa.protocol import (
    BLIND,
    PROBE,
    ByKind,
    QuestionSet,
    VqaResult,
    answer_questions,
    answer_unseen,
    chance,
)
from equipoise.io.progress import Progress
from equipoise.io.tables import make_table, print_tables
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.subject import Subject


def probe_questions(
    subject: Subject,
    files: VqaFiles,
    val_data: str,
    settings: VqaProbeSettings,
    out: Path,
    command: str,
    test_data: str = "",
) -> VqaResult:
    """Train the probe and test it; print and write. `subject.split` is the test split, where the data is a recipe's.
    Where there are questions without answers, submission.json has the probe's, trained on all that have some."""
    if val_data and files.questions is None:
        raise UserError("--val-data belongs to files of questions; a recipe brings its own test split")
    if test_data and files.test_questions is None:
        raise UserError("--test-data belongs to --test-questions; give both, or neither")
    subjects = replace(subject, split="train"), replace(subject, data=val_data or subject.data)
    to_hand_in = replace(subject, data=test_data or subject.data)
    train, test = (one.source() for one in subjects)
    questions = questions_of(train, test, files, subject.seed)
    keys = [[source.pair(index).key for index in range(len(source))] for source in (train, test)]
    names = [str(files.questions or "the scenes"), str(files.val_questions or "the scenes")]
    places = [image_places(*some) for some in zip(questions, keys, names, strict=True)]
    unseen = _unseen(to_hand_in, files)
    model = subject.model()
    parts = [
        encoded(model, *some)
        for some in zip((train, test), questions, places, ("to train on", "to test on"), strict=True)
    ]  # fmt: skip
    answered = answer_questions(parts[0], parts[1], settings, _bar)
    if unseen is not None:
        _submit(model, unseen, parts, settings, out)
    guessing = chance(questions[1]) if files.questions is None else {}
    sentence = _sentence(answered, guessing)
    _print(answered, guessing)
    _write_questions(questions, answered, files, out)
    numbers = {
        **subject.facts(), "settings": asdict(settings), "answers": answered.answers, "chance": guessing,
        "best_of_these_answers": answered.reach, "questions_trained_on": answered.trained_on,
        "found": _plain(answered.found), "by_topic": _plain(answered.topics),
    }  # fmt: skip
    AnalysisReport("vqa", sentence, numbers, draw_vqa(answered.found, guessing, sentence)).write(out, command)
    return answered


@dataclass(frozen=True)
class _Unseen:
    """Questions without answers, and the pictures they are about."""

    source: Source
    questions: list[Question]
    places: list[int]


def _unseen(subject: Subject, files: VqaFiles) -> _Unseen | None:
    """Read before anything is encoded, so that a mistake is told at once."""
    if files.test_questions is None:
        return None
    questions, source = read_unanswered(files.test_questions), subject.source()
    keys = [source.pair(index).key for index in range(len(source))]
    return _Unseen(source, questions, image_places(questions, keys, str(files.test_questions)))


def _submit(model: Model, unseen: _Unseen, known: Sequence[QuestionSet], settings: VqaProbeSettings, out: Path) -> None:
    asked = encoded(model, unseen.source, unseen.questions, unseen.places, "to hand in")
    write_submission(unseen.questions, answer_unseen(known, asked, settings, _bar), out / "submission.json")
    total = sum(len(part.questions) for part in known)
    print(
        f"{len(unseen.questions):,} answers of a probe trained on {total:,} questions are in "
        f"{out / 'submission.json'}, as VQA's server takes them\n"
    )


@contextmanager
def _bar(name: str, steps: int) -> Iterator[OnStep]:
    with Progress(steps, name) as progress:
        yield lambda step, loss: progress.update(step, loss=f"{loss:.3f}")


def _write_questions(questions: Sequence[Sequence[Question]], answered: VqaResult, files: VqaFiles, out: Path) -> None:
    """The probe's answers in the form of VQA's results, and the questions about scenes."""
    write_submission(questions[1], answered.predictions, out / "answers.json")
    if files.questions is None:
        for name, some in zip(("train", "test"), questions, strict=True):
            write_questions(some, out / f"{name}_questions.json", out / f"{name}_annotations.json")


def _sentence(answered: VqaResult, guessing: dict[str, float]) -> str:
    seeing, blind = (answered.found[name]["all"] for name in (PROBE, BLIND))
    others = [f"{name}: {percent(found['all'].right)}" for name, found in list(answered.found.items())[2:]]
    others += [f"guessing among a question's answers: {percent(guessing['all'])}"] if guessing else []
    return (
        f"The probe answers {percent(seeing.right)} (± {percent(seeing.error)}) of {seeing.questions:,} questions "
        f"right, without the picture {percent(blind.right)}; {'; '.join(others)}."
    )


def _plain(found: dict[str, ByKind]) -> dict[str, dict[str, dict[str, float]]]:
    return {name: {kind: asdict(one) for kind, one in kinds.items()} for name, kinds in found.items()}


def _print(answered: VqaResult, guessing: dict[str, float]) -> None:
    kinds = answered.found[PROBE]
    columns = ("", *(f"{kind}\n{one.questions:,}" for kind, one in kinds.items()))
    rows = [(name, *(percent(found[kind].right) for kind in kinds)) for name, found in answered.found.items()]
    if guessing:
        rows.append(("guessing", *(percent(guessing[kind]) for kind in kinds)))
    bold = [list(answered.found).index(PROBE)]
    print_tables(make_table(columns, rows, title="questions answered right, by VQA's rule", bold=bold))
    if topics := answered.topics[PROBE]:
        blind = answered.topics[BLIND]
        rows = [
            (topic, f"{one.questions:,}", percent(one.right), percent(blind[topic].right))
            for topic, one in topics.items()
        ]
        print_tables(make_table(("", "questions", PROBE, BLIND), rows, title="by what is asked about"))
    print(f"{answered.answers:,} answers to choose from; {answered.trained_on:,} questions to train on\n")
