"""The words of `equipoise embed`; who embeds what is in `workflows/embed/encoders.py`, how it is written in
`workflows/embed/write.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_embed_command(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds `embed` to the command line; `command` adds one command to a list of them."""
    about = "write the features of data, for training in seconds"
    embed = command(commands, _embed, "embed", about, "runs/demo demo --split train --out features/train")
    embed.add_argument("model", help="a model folder, timm:NAME, transformers:FOLDER or sentence-transformers:FOLDER")
    embed.add_argument("data", help="a recipe whose data to read, or shards, a table or a folder")
    embed.add_argument("--out", type=Path, required=True, help="the folder for the features")
    embed.add_argument("--text", default="", metavar="MODEL", help="another model for the texts")
    embed.add_argument("--split", default="train", choices=("train", "validation", "test"), help="of a recipe")
    embed.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a recipe's setting")
    embed.add_argument("--before-projection", action="store_true", help="class tokens instead of points of the space")
    embed.add_argument("--weights", default="", metavar="FILE", help="the weights of a timm model")
    embed.add_argument("--pretrained", action="store_true", help="fetch the weights of a named model from the hub")
    embed.add_argument("--per-shard", type=int, default=10_000, help="images in a file")
    embed.add_argument("--batch-size", type=int, default=256, help="images encoded at once")
    embed.add_argument("--half", action="store_true", help="write float16")


def _embed(options: argparse.Namespace) -> None:
    from equipoise.workflows.embed.encoders import EmbedRequest, embed_data
    from equipoise.workflows.embed.write import Embedding

    wish = EmbedRequest(options.model, options.text, options.weights, options.pretrained, options.before_projection)
    settings = Embedding(options.per_shard, options.batch_size, options.half)
    embed_data(wish, options.data, options.set, options.split, options.out, settings)
