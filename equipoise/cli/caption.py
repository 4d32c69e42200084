"""The words of `equipoise caption`; what it does is in `workflows/caption.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_model, add_seed, add_set
from equipoise.cli.paths import local_path

EXAMPLE = "runs/coca 'photos/*.jpg' --method beam --out captions.jsonl"
METHODS = ("greedy", "top_k", "top_p", "beam")


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "a model folder of a CoCa, or a CoCa of open_clip", str)
    parser.add_argument(
        "pictures", nargs="+", metavar="PICTURES", help="files, a folder, a pattern, shards or a recipe"
    )
    parser.add_argument(
        "--out", type=local_path, metavar="FILE", help="write JSON lines; a file that is there is gone on with"
    )
    parser.add_argument(
        "--sheet", type=local_path, metavar="FILE", help="write a PNG of 8 pictures with their captions"
    )
    parser.add_argument("--method", default="greedy", choices=METHODS, help="how words are chosen (default: greedy)")
    parser.add_argument("--longest", type=int, default=30, metavar="N", help="tokens of a caption (default: 30)")
    parser.add_argument("--shortest", type=int, default=2, metavar="N", help="tokens before it may end (default: 2)")
    parser.add_argument("--beams", type=int, default=4, metavar="N", help="captions kept by beam (default: 4)")
    parser.add_argument(
        "--length-penalty", type=float, default=1.0, metavar="A", help="of beam; smaller: shorter (default: 1)"
    )
    parser.add_argument("--top-k", type=int, default=50, metavar="K", help="words that top_k draws among (default: 50)")
    parser.add_argument(
        "--top-p", type=float, default=0.9, metavar="P", help="share that top_p draws in (default: 0.9)"
    )
    parser.add_argument("--temperature", type=float, default=1.0, metavar="T", help="of what is drawn (default: 1)")
    add_seed(parser)
    parser.add_argument("--batch-size", type=int, default=64, metavar="N", help="pictures at once (default: 64)")
    parser.add_argument("--no-cache", action="store_true", help="keep no keys and values: slower, the same captions")
    add_set(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.models.captioning import Decoding
    from equipoise.workflows.caption import caption_pictures

    settings = Decoding(
        options.method, options.longest, options.shortest, options.beams, options.length_penalty, options.top_k,
        options.top_p, options.temperature, options.seed, not options.no_cache,
    )  # fmt: skip
    caption_pictures(
        options.model, options.pictures, settings, options.out, sheet=options.sheet, batch_size=options.batch_size,
        overrides=options.set,
    )  # fmt: skip
