"""The words of `equipoise import`; what it does is in `workflows/convert.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_out

EXAMPLE = "ViT-B-32.safetensors --model ViT-B-32-quickgelu --out models/b32"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help="a folder of open_clip or transformers, a file of weights, or hf-hub:ORG/NAME"
    )
    add_out(parser, "the model folder to write, a new one", required=True)
    parser.add_argument(
        "--model", default="", metavar="NAME", help="what a file of weights holds: ViT-B-32, ViT-B-32-quickgelu, RN50, "
        "... as open_clip names them, or a .json file of its settings",
    )  # fmt: skip
    parser.add_argument("--tokenizer", default="", metavar="PATH", help="its tokenizer, where it is not beside it")
    parser.add_argument(
        "--preprocess", default="", metavar="FILE",
        help="how images are prepared, as open_clip's preprocess_cfg (.json)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> None:
    from equipoise.interop import ImportRequest
    from equipoise.workflows import import_model

    import_model(options.path, options.out, ImportRequest(options.model, options.tokenizer, options.preprocess))
