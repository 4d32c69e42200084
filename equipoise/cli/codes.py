"""The words of `equipoise codes`; what it does is in `workflows/codes.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_codes_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `codes` to the command line; `command` adds one command to a list of them."""
    about = "what the codes of a code book stand for: a page of their pictures and words, or the codes of a word"
    codes = command(commands, _codes, "codes", about, "runs/fdt-scenes --stride 4")
    codes.add_argument("model", type=Path, help="a model folder with a code book, such as runs/fdt-scenes")
    codes.add_argument("data", nargs="?", default="", help="a recipe or files (default: the data it was trained on)")
    codes.add_argument("--split", default="test", choices=("train", "validation", "test"), help="of a recipe's data")
    codes.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the data")
    codes.add_argument(
        "--word", action="append", default=[], help="print the codes that fire for a word, and write no page"
    )
    codes.add_argument("--stride", type=int, default=0, help="pixels between patches, for finer heat maps (vit-...)")
    codes.add_argument("--images", type=int, default=5, help="pictures shown of a code")
    codes.add_argument("--words", type=int, default=8, help="words shown of a code")
    codes.add_argument("--most", type=int, default=0, help="codes shown, the most used first (default: all used)")
    codes.add_argument("--out", type=Path, default=Path("codes"), help="the folder for page, pictures and numbers")


def _codes(options: argparse.Namespace) -> None:
    from equipoise.workflows.code_words import find_words
    from equipoise.workflows.codes import CodebookRequest, show_codes
    from equipoise.workflows.subject import Subject

    subject = Subject(options.model, options.data, options.set, options.split)
    settings = CodebookRequest(options.images, options.words, options.stride, options.most)
    if options.word:
        find_words(subject, options.word, settings, options.out)
    else:
        show_codes(subject, settings, options.out, options.typed)
