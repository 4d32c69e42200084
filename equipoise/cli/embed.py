"""The words of `equipoise embed`; who embeds what is in `workflows/embed/encoders.py`, how it is written in
`workflows/embed/write.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_data, add_engine, add_model, add_out, add_set, add_split, engine_of
from equipoise.cli.paths import folder_or_store

EXAMPLE = "runs/demo demo --split train --out features/train"


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "a model folder, timm:NAME, transformers:FOLDER or sentence-transformers:FOLDER", str)
    add_data(parser, "a recipe whose data to read, or shards, a table or a folder")
    add_out(parser, "the folder for the features, in a store too (s3://...)", kind=folder_or_store, required=True)
    parser.add_argument("--text", default="", metavar="MODEL", help="another model for the texts")
    add_split(parser, None, "of a recipe's data, or of a table with splits", shown="train; all of a table")
    add_set(parser)
    parser.add_argument("--before-projection", action="store_true", help="what readouts read, instead of points")
    parser.add_argument("--weights", default="", metavar="FILE", help="the weights of a timm model")
    parser.add_argument("--pretrained", action="store_true", help="fetch the weights of a named model from the hub")
    parser.add_argument("--per-shard", type=int, default=10_000, help="images per file")
    parser.add_argument("--batch-size", type=int, default=256, help="images encoded at once")
    parser.add_argument("--half", action="store_true", help="write float16")
    parser.add_argument(
        "--format", choices=("safetensors", "parquet"), default="safetensors", help="of files (default: safetensors)"
    )
    add_engine(parser)


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.embed.encoders import EmbedRequest
    from equipoise.workflows.embed.run import embed_data
    from equipoise.workflows.embed.write import Embedding

    request = EmbedRequest(options.model, options.text, options.weights, options.pretrained, options.before_projection)
    settings = Embedding(options.per_shard, options.batch_size, options.half, options.format)
    embed_data(request, options.data, options.set, options.split, options.out, settings, engine_of(options))
