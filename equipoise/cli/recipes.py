"""The words of `equipoise recipes`; recipes are found in `settings/recipe.py`."""

from __future__ import annotations

import argparse

EXAMPLE = ""
PAPERS = {  # of the folders of recipes, in the order of the list
    "clip": "CLIP: Radford et al. 2021",
    "softclip": "SoftCLIP: Gao et al. 2024",
    "fdt": "Finite discrete tokens: Chen et al. 2023",
    "topology": "Temperature and topology: Sun & Li 2024",
    "mixup": "Geodesic multi-modal mixup: Oh et al. 2023, with i-Mix (Lee et al. 2021) and Un-Mix (Shen et al. 2022)",
    "few_shot": "Few-shot classes: Oh et al. 2023, with MaPLe (Khattak et al. 2023)",
    "cyclip": "CyCLIP: Goel et al. 2022",
    "declip": "DeCLIP: Li et al. 2022",
    "slip": "SLIP: Mu et al. 2022",
    "filip": "FILIP: Yao et al. 2022",
    "albef": "ALBEF: Li et al. 2021, and TCL: Yang et al. 2022",
    "data": "Your own pairs: shards, tables, features",
}


def add(_: argparse.ArgumentParser) -> None:
    """Takes no arguments of its own."""


def run(options: argparse.Namespace) -> None:
    from equipoise.io.numbers import hand_over
    from equipoise.settings.recipe import built_in_files, builtin_recipes

    folders = {name: file.parent.name for name, file in built_in_files().items()}
    summaries = builtin_recipes()
    found = [
        {"name": name, "paper": PAPERS.get(folder, folder), "summary": summaries[name]}
        for folder in dict.fromkeys((*PAPERS, *folders.values()))
        for name in summaries
        if folders[name] == folder
    ]
    hand_over({"recipes": found})
    if options.json:
        return
    for paper in dict.fromkeys(one["paper"] for one in found):
        print(paper)
        for one in (one for one in found if one["paper"] == paper):
            print(f"  {one['name']:24} {one['summary']}")
