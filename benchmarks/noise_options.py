"""What the noise bench is asked to do."""

from __future__ import annotations

import argparse
from pathlib import Path

from cells import add_options
from noise_report import BY, MEAN_RECALL
from noise_rows import DRAWN, NOISE, RECIPES, SHUFFLED


def read_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of the command line; ends with a sentence where they do not go together."""
    _add_data(parser)
    _add_judges(parser)
    _add_tables(parser)
    parser.add_argument("--tf32", action="store_true", help="float32 products by a GPU's tensor cores, measuring too")
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[], help="learning rates that every row may choose of"
    )
    add_options(parser, needs_folder=False)
    options = parser.parse_args()
    if options.noise != SHUFFLED and options.data not in DRAWN:
        parser.error(f"--noise {options.noise} is drawn with scenes; for {options.data} leave it out")
    if options.only_judge and not (options.features or options.share_judges):
        parser.error("--only-judge is of rows that share their judges; give --features or --share-judges")
    if bool(options.out) == bool(options.cells) and not options.write_indices:
        parser.error("cells are made and read in a folder, or read from a file of packed ones: give --out or --cells")
    if options.cells and options.keep:
        parser.error("--keep packs the cells of a folder; --cells reads packed ones: leave one of them out")
    options.report = options.report or bool(options.cells)
    return options


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", choices=RECIPES)
    parser.add_argument("--shares", type=float, nargs="+", help="of images with wrong captions, 0.3 and 0.6 by default")
    parser.add_argument("--level", choices=["image", "caption"], default="image", help="what is wrong together")
    parser.add_argument("--noise", choices=NOISE, default=SHUFFLED, help="what is wrong with them; others: of scenes")
    parser.add_argument("--write-indices", type=Path, metavar="FOLDER", help="write noise index files, train nothing")
    parser.add_argument("--relevance", default="", metavar="FILE", help="what is relevant among the test images: ECCV")


def _add_judges(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--features", nargs="+", default=[], metavar="KEY=VALUE", help="of `features`, of the same records: to judge by"
    )
    parser.add_argument("--judge", type=Path, metavar="MODEL", help="a model that was not trained on these pairs")
    parser.add_argument(
        "--share-judges", action="store_true", help="one pass of judges for all rows that differ in rule or loss alone"
    )
    parser.add_argument("--only-judge", action="store_true", help="judge for the rows that share, train nothing yet")


def _add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--against", metavar="WAY", help="also tell how far this way is ahead of every other")
    parser.add_argument("--by", choices=BY, default=MEAN_RECALL, help="the number by which --against compares")
    parser.add_argument("--judged", action="store_true", help="also tell who names the wrong ones")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="a picture: R@1 against the share of wrong captions")
    parser.add_argument("--keep", type=Path, metavar="FILE.jsonl.gz", help="pack the cells of the folder into a file")
    parser.add_argument("--cells", type=Path, metavar="FILE.jsonl.gz", help="report on packed cells, without a folder")
