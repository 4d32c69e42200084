"""How fast scenes are drawn up and painted: `python benchmarks/scenes.py`.

Seconds are those of one CPU core's own time, so that other work on the machine matters little; on a GPU, by the clock.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch

from equipoise.data.scenes.rendering.render import render
from equipoise.data.scenes.scene import Scene
from equipoise.data.scenes.world import World, sample_scene
from equipoise.data.splits import SPLITS

SIZES = (32, 64, 128, 224)


def best_seconds(work: Callable[[], object], device: str = "cpu", repeats: int = 5) -> float:
    """The shortest of several runs, after one to warm up."""
    clock = time.process_time if device == "cpu" else time.perf_counter

    def once() -> float:
        start = clock()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        return clock() - start

    once()
    return min(once() for _ in range(repeats))


def sample(world: World, split: str, count: int) -> list[Scene]:
    return [sample_scene(world, 0, split, index) for index in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast scenes are drawn up and painted.")
    parser.add_argument("--scenes", type=int, default=8192, help="at most so many at once")
    most = parser.parse_args().scenes
    torch.set_num_threads(1)
    world = World()
    print(f"{'scenes drawn up':<24}{'scenes/s':>12}{'µs a scene':>14}")
    for split in SPLITS:
        count = min(most, 2000)
        seconds = best_seconds(partial(sample, world, split, count)) / count
        print(f"{split:<24}{1 / seconds:>12,.0f}{seconds * 1e6:>14.1f}")
    scenes = sample(world, "train", most)
    print(f"\n{'pictures, scenes to uint8':<24}{'pixels':>11}{'images/s':>13}")
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        name = torch.cuda.get_device_name() if device == "cuda" else "one CPU core"
        for size in SIZES:
            count = most if device == "cuda" else min(most, 2**22 // size**2)
            seconds = best_seconds(partial(render, scenes[:count], size, device), device)
            print(f"{name:<24}{size:>12}{count / seconds:>13,.0f}")


if __name__ == "__main__":
    main()
