"""How many-to-many the scenes corpus is, and what its language costs.

    python benchmarks/scenes_truth.py [--scenes 1000]

Prints the share of (caption, other scene) pairs that happen to be true, by level of detail, then the time to draw
records and to decide the truth of every caption of every scene.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from equipoise.data.scenes.corpus import Scenes
from equipoise.data.scenes.language.parser import parse
from equipoise.data.scenes.relevance import relevance

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def accidental(truth: np.ndarray, scene_of_caption: np.ndarray) -> tuple[float, float, float]:
    """Share of true pairs among (caption, other scene); other true scenes a caption; share of captions with any."""
    others = truth.sum(0) - truth[scene_of_caption, np.arange(truth.shape[1])]
    return others.mean() / (len(truth) - 1), others.mean(), (others > 0).mean()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes", type=int, default=1000)
    number = parser.parse_args().scenes
    source = Scenes.Config(test_size=number).build("test")
    _, drawing = timed(lambda: [source.scene(index) for index in range(number)])
    pairs, describing = timed(lambda: [source.pair(index) for index in range(number)])
    captions = [caption for pair in pairs for caption in pair.captions]
    meanings, reading = timed(lambda: [parse(caption) for caption in captions])
    scenes = [source.scene(index) for index in range(number)]
    truth, judging = timed(lambda: relevance(scenes, meanings))

    scene_of_caption = np.repeat(np.arange(number), len(pairs[0].captions))
    details = np.array([detail for pair in pairs for detail in pair.truth["details"]])
    first = np.arange(len(captions)) % len(pairs[0].captions) == 0
    rows = {"first (complete)": first, "all": np.ones_like(first), **{d: details == d for d in source.config.details}}
    print(f"{number} test scenes, {len(captions)} captions")
    print(f"{'captions':<18}{'number':>8}{'true of another scene':>24}{'others each':>13}{'with any other':>16}")
    for name, chosen in rows.items():
        share, others, having = accidental(truth[:, chosen], scene_of_caption[chosen])
        print(f"{name:<18}{chosen.sum():>8}{share:>24.4%}{others:>13.2f}{having:>16.1%}")
    print(f"\nscene {drawing / number * 1e6:.0f} µs, captions and truth {describing / number * 1e6:.0f} µs a record")
    print(f"reading {reading / len(captions) * 1e6:.0f} µs a caption, truth of {truth.size:,} pairs {judging:.2f} s")


if __name__ == "__main__":
    main()
