"""The words of `equipoise vqa`; what it does is in `workflows/vqa.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_data, add_out, add_seed, add_split, add_subject, subject_of
from equipoise.cli.numbers import up_to
from equipoise.cli.paths import local_path

EXAMPLE = "runs/demo --set data.train_size=4000"


def add(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    for name, about in (
        ("--questions", "to train on, in VQA's form (default: of scenes)"),
        ("--annotations", "the answers to them"),
        ("--val-questions", "to test on"),
        ("--val-annotations", "the answers to them"),
        ("--test-questions", "without answers: those of a probe trained on all others go to submission.json"),
    ):
        parser.add_argument(name, type=local_path, metavar="FILE", help=about)
    add_data(parser, "pictures to test on (default: the same data)", "--val-data", default="")
    add_data(parser, "pictures of --test-questions (default: the same data)", "--test-data", default="")
    add_split(parser, "test", "of a recipe's data, to test on", ("validation", "test"))
    parser.add_argument("--answers", type=up_to(2**20), default=3129, help="to choose from, the most frequent")
    parser.add_argument("--hidden", type=up_to(2**16), default=1024, help="width of the head")
    parser.add_argument("--epochs", type=int, default=20, help="of training the head")
    parser.add_argument("--batch-size", type=int, default=512, help="questions at once")
    parser.add_argument("--learning-rate", type=float, default=5e-3, help="at the start of its cosine")
    add_seed(parser, "of the head, the order and what is asked about scenes")
    add_out(parser, "the folder for picture, numbers and answers", "vqa")


def run(options: argparse.Namespace) -> None:
    from equipoise.evaluation.vqa.data import VqaFiles
    from equipoise.evaluation.vqa.probe import VqaProbeSettings
    from equipoise.workflows.vqa import probe_questions

    files = VqaFiles(
        options.questions, options.annotations, options.val_questions, options.val_annotations, options.test_questions
    )
    settings = VqaProbeSettings(
        options.answers, options.hidden, options.epochs, options.batch_size, options.learning_rate, seed=options.seed
    )
    probe_questions(
        subject_of(options), files, options.val_data, settings, options.out, options.command, options.test_data
    )
