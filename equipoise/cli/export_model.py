"""The words of `equipoise export`; what it does is in `workflows/convert.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_model, add_out

EXAMPLE = "runs/demo --to transformers --out exported/demo"
FORMATS = ("open_clip", "transformers", "onnx")  # the keys of `interop.EXPORTS`, known here without importing torch


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "a model folder, such as runs/demo, or whatever `import` reads", str)
    parser.add_argument("--to", required=True, choices=FORMATS, help="for whom")
    add_out(parser, "the folder to write, a new one", required=True)


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows import export_model

    export_model(options.model, options.to, options.out)
