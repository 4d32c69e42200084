"""The words of `equipoise data convert`; what it does is in `data/modalities/published.py`."""

from __future__ import annotations

import argparse

from equipoise.cli.paths import local_path

EXAMPLE = "mosei_senti_data.pkl mosei"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=local_path, metavar="FILE", help="a pickle of modalities as CMU-MOSI or CMU-MOSEI has them"
    )
    parser.add_argument("folder", type=local_path, metavar="FOLDER", help="where a file for each split goes")


def run(options: argparse.Namespace) -> None:
    from equipoise.workflows.convert_modalities import convert_modalities

    convert_modalities(options.file, options.folder)
