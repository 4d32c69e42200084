"""The words of `equipoise explain`; what it does is in `workflows/explain.py`."""

from __future__ import annotations

import argparse
from pathlib import Path

from equipoise.cli.arguments import add_out, add_seed, add_split, add_subject, subject_of
from equipoise.cli.paths import local_path

EXAMPLE = "runs/demo --image photo.jpg --text 'a red fish'"
METHODS = ("auto", "gradient_attention", "legrad", "grad_eclip", "grad_cam", "rollout")


def add(parser: argparse.ArgumentParser) -> None:
    add_subject(parser)
    parser.add_argument("--image", type=local_path, metavar="FILE", help="the picture to explain")
    parser.add_argument("--text", default="", help="the text to explain it with")
    parser.add_argument(
        "--method", default="auto", choices=METHODS, help="how (default: the best that the model allows)"
    )
    parser.add_argument(
        "--part", default="", metavar="NUMBERS",
        help="of the similarity: a class token or code (3), a pair of tokens (3,5), or all of the largest",
    )  # fmt: skip
    parser.add_argument("--score", action="store_true", help="score methods on DATA, scenes, instead of one pair")
    parser.add_argument("--pairs", type=int, default=300, metavar="N", help="named things that --score asks for")
    add_split(parser, "test")
    add_seed(parser, "of random relevance and of the untrained model, for --score")
    add_out(parser, "the folder for picture and JSON (default: explanation; with --score none)")


def run(options: argparse.Namespace) -> None:
    from equipoise.types import UserError
    from equipoise.workflows.explain import explain_pair, score_explanations

    subject = subject_of(options)
    if options.score:
        if options.image or options.text or options.part:
            raise UserError("--score takes its pictures and texts from DATA; leave out --image, --text and --part")
        score_explanations(subject, options.method, options.pairs, options.out)
        return
    if options.image is None or not options.text:
        raise UserError("give --image FILE and --text TEXT, or --score to score methods on scenes")
    if options.data:
        raise UserError("DATA is for --score; leave it out with --image and --text")
    out = options.out or Path("explanation")
    explain_pair(options.model, options.image, options.text, options.method, options.part, out)
