"""The words of `equipoise import` and `equipoise export`; what they do is in `workflows/convert.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORMATS = ("open_clip", "transformers", "onnx")  # those of `exchange.EXPORTS`, said before torch is there


def add_exchange_commands(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `import` and `export` to the command line; `command` adds one command to a list of them."""
    about = "make a model folder of weights that open_clip, OpenAI or transformers published"
    inward = command(
        commands, _import, "import", about, "ViT-B-32.safetensors --model ViT-B-32-quickgelu --out models/b32"
    )
    inward.add_argument("path", help="a folder of open_clip or transformers, a file of weights, or hf-hub:ORG/NAME")
    inward.add_argument("--out", type=Path, required=True, help="the model folder to write, a new one")
    inward.add_argument(
        "--model", default="", metavar="NAME", help="what a file of weights holds: ViT-B-32, ViT-B-32-quickgelu, RN50, "
        "... as open_clip names them, or a .json file of its settings",
    )  # fmt: skip
    inward.add_argument("--tokenizer", default="", metavar="PATH", help="its tokenizer, where it is not beside it")
    inward.add_argument(
        "--preprocess",
        default="",
        metavar="FILE",
        help="how images are prepared, as open_clip's preprocess_cfg (.json)",
    )
    about = "write a model for open_clip, for transformers or as ONNX"
    outward = command(commands, _export, "export", about, "runs/demo --to open_clip --out exported/demo")
    outward.add_argument("model", help="a model folder, such as runs/demo, or whatever `import` reads")
    outward.add_argument("--to", required=True, choices=FORMATS, help="for whom")
    outward.add_argument("--out", type=Path, required=True, help="the folder to write, a new one")


def _import(options: argparse.Namespace) -> None:
    from equipoise.interop import ImportRequest
    from equipoise.workflows import import_model

    import_model(options.path, options.out, ImportRequest(options.model, options.tokenizer, options.preprocess))


def _export(options: argparse.Namespace) -> None:
    from equipoise.workflows import export_model

    export_model(options.model, options.to, options.out)
