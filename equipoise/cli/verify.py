"""--no-verify, for commands that read a model folder or a run; what it leaves out is in `io/digests.py`."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager

from equipoise.io.digests import verifying

READ_MODELS = (
    *(
        "train",
        "finetune",
        "eval",
        "zeroshot",
        "embed",
        "export",
        "push",
        "pull",
        "equilibrium",
        "landscape",
        "similarities",
        "tokens",
        "codes",
    ),
    *("completeness", "vqa", "simat", "probe", "clean", "audit", "shift", "regions"),
    *("build", "add", "delete", "search", "serve"),
)


def add_verify_option(parser: argparse.ArgumentParser, command: str) -> None:
    """Add --no-verify to a command that reads models."""
    if command in READ_MODELS:
        parser.add_argument(
            "--no-verify", action="store_true", help="accept files that do not match the digests.json beside them"
        )


def verified_by(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Verify the files of model folders unless the words of a command say otherwise."""
    return verifying(not getattr(options, "no_verify", False))
