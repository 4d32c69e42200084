"""The words of `equipoise vqa`; what it does is in `workflows/vqa.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_vqa_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `vqa` to the command line; `command` adds one command to a list of them."""
    about = "train a small head on frozen features, to answer questions about pictures"
    vqa = command(commands, _vqa, "vqa", about, "runs/demo --set data.train_size=4000")
    vqa.add_argument("model", type=Path, help="a model folder, such as runs/demo")
    vqa.add_argument("data", nargs="?", default="", help="a recipe or files (default: the data it was trained on)")
    vqa.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the data")
    vqa.add_argument("--questions", type=Path, metavar="FILE", help="to train on, in VQA's form (default: of scenes)")
    vqa.add_argument("--annotations", type=Path, metavar="FILE", help="the answers to them")
    vqa.add_argument("--val-questions", type=Path, metavar="FILE", help="to test on")
    vqa.add_argument("--val-annotations", type=Path, metavar="FILE", help="the answers to them")
    vqa.add_argument("--val-data", default="", metavar="DATA", help="pictures to test on (default: the same data)")
    vqa.add_argument("--split", default="test", choices=("validation", "test"), help="of a recipe, to test on")
    vqa.add_argument("--answers", type=int, default=3129, help="to choose from, the most frequent")
    vqa.add_argument("--hidden", type=int, default=1024, help="width of the head")
    vqa.add_argument("--epochs", type=int, default=20)
    vqa.add_argument("--batch-size", type=int, default=512, help="questions at once")
    vqa.add_argument("--learning-rate", type=float, default=5e-3, help="at the start of its cosine")
    vqa.add_argument("--seed", type=int, default=0, help="of the head, the order and what is asked about scenes")
    vqa.add_argument("--out", type=Path, default=Path("vqa"), help="the folder for picture, numbers and answers")


def _vqa(options: argparse.Namespace) -> None:
    from equipoise.evaluation.vqa.probe import VqaProbeSettings
    from equipoise.workflows.subject import Subject
    from equipoise.workflows.vqa import probe_questions
    from equipoise.workflows.vqa_data import VqaFiles

    files = VqaFiles(options.questions, options.annotations, options.val_questions, options.val_annotations)
    settings = VqaProbeSettings(
        options.answers, options.hidden, options.epochs, options.batch_size, options.learning_rate, seed=options.seed
    )
    subject = Subject(options.model, options.data, options.set, options.split, options.seed)
    probe_questions(subject, files, options.val_data, settings, options.out, options.typed)
