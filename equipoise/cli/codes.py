"""The words of `equipoise codes`; what it does is in `workflows/codes.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out, add_split, add_subject, subject_of

EXAMPLE = "runs/fdt-scenes --stride 4"


def add(parser: argparse.ArgumentParser) -> None:
    add_subject(parser, "a model folder with a code book, such as runs/fdt-scenes")
    add_split(parser, "test")
    parser.add_argument(
        "--word", action="append", default=[], help="print the codes that fire for a word, and write no page"
    )
    parser.add_argument("--stride", type=int, default=0, help="pixels between patches, for finer heat maps (vit-...)")
    parser.add_argument("--images", type=int, default=5, help="pictures shown per code")
    parser.add_argument("--words", type=int, default=8, help="words shown per code")
    parser.add_argument("--most", type=int, default=0, help="codes shown, the most agreed on first (default: all used)")
    add_out(parser, "the folder for page, pictures and numbers", "codes")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.code_words import find_words
    from equipoise.workflows.codes import CodebookRequest, show_codes

    subject = subject_of(options)
    settings = CodebookRequest(options.images, options.words, options.stride, options.most)
    if options.word:
        find_words(subject, options.word, settings, options.out)
    else:
        show_codes(subject, settings, options.out, options.command)
