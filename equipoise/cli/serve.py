"""The words of `equipoise serve`; what it does is in `serve/start.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.arguments import add_model
from equipoise.cli.paths import local_path

EXAMPLE = "runs/demo"


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--index", default="", metavar="FOLDER",
        help="of `equipoise index`, or postgresql://... (default: the validation pictures of the run)",
    )  # fmt: skip
    parser.add_argument(
        "--suspects", type=local_path, metavar="FOLDER", help="of `equipoise clean`, to judge (default: the run's own)"
    )
    parser.add_argument("--beside", type=local_path, metavar="MODEL2", help="a second model, to compare the first with")
    parser.add_argument("--beside-index", default="", metavar="FOLDER", help="the index of the second model")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; any but this machine needs the token")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free (default: 8000)")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name by which a proxy calls the service"
    )
    parser.add_argument(
        "--token-file", type=local_path, metavar="FILE", help="with the token to ask for (default: made up and printed)"
    )
    parser.add_argument("--read-only", action="store_true", help="suspects can be seen and not judged")
    parser.add_argument("--upload", type=int, default=10, metavar="MIB", help="of a picture, at most (default: 10)")
    parser.add_argument(
        "--pixels", type=int, default=25_000_000, metavar="N", help="of a picture, at most (default: 25,000,000)"
    )
    parser.add_argument(
        "--rate", type=int, metavar="N",
        help="requests a minute from one address, 0 for any number (default: 600, on this machine alone 0)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> None:
    from equipoise.serve.limits import MEBIBYTE, Limits
    from equipoise.serve.request import ServeRequest
    from equipoise.serve.start import serve

    limits = Limits(upload=options.upload * MEBIBYTE, pixels=options.pixels, rate=options.rate or 0)
    serve(
        ServeRequest(
            run=options.model,
            index=options.index,
            suspects=options.suspects,
            beside=options.beside,
            beside_index=options.beside_index,
            host=options.host,
            port=options.port,
            token_file=options.token_file,
            hosts=tuple(options.allow_host),
            read_only=options.read_only,
            limits=limits,
            rate=options.rate,
        )
    )
