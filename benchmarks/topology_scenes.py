"""Spaces, temperatures and class tokens on noisy scenes, end to end: Tables 2 and 7 of Sun & Li 2024 at toy scale.

    python benchmarks/topology_scenes.py spaces --out FOLDER      sphere, Euclidean, PS(32, 8), fixed and learned
    python benchmarks/topology_scenes.py multi --out FOLDER       sphere, PS(32, 8), Multi(32, 8), one text tower

The towers of `demo`, 40% of the captions another scene's, 256 dimensions. The temperature learns ten times as fast as
the towers, since Adam moves t by the learning rate a step at most and these runs are a thousand times shorter than the
paper's. In `multi` every space starts where its logits reach as far: exp(t) times its range is the same for all.
"""

from __future__ import annotations

import argparse
import math

from cells import PRECISION, RECALL, ZERO_SHOT, Row, add_options, run, table

DIM, SPHERES = 256, 8
BASE = ("training.steps=300", "training.evaluate_every=300", "training.log_every=2", "temperature.speed=10")
PRODUCT = ("space.name=product_sphere", f"space.n={DIM // SPHERES}", f"space.m={SPHERES}")
SPACES = {
    f"sphere({DIM})": ("space.name=sphere", f"space.dim={DIM}"),
    f"Euclidean({DIM})": ("space.name=euclidean", f"space.dim={DIM}"),
    f"PS({DIM // SPHERES}, {SPHERES}) geodesic": (*PRODUCT, "space.distance=geodesic"),
    f"PS({DIM // SPHERES}, {SPHERES}) inner": PRODUCT,
}
FIXED = ("temperature.init=0.0", "temperature.learnable=false")
WIDE = math.log(1 / 0.07)  # where CLIP starts


def spaces() -> list[Row]:
    """Every space without a temperature, and with one that starts at 0 or where CLIP's does."""
    starts = {"fixed at 1": FIXED, "from 2.66": (f"temperature.init={WIDE}",), "from 0": ("temperature.init=0.0",)}
    return [
        Row(f"{name}, {start}", "scenes-sphere", (*BASE, *space, *temperature))
        for start, temperature in starts.items()
        for name, space in SPACES.items()
    ]


def multi() -> list[Row]:
    """The same bidirectional text tower for all, since only such a tower can have several class tokens."""
    sphere, _, _, product = SPACES.values()
    text = ("text.name=bert-nano", "tokens.kind=wordpiece")
    low = f"temperature.init={WIDE - math.log(SPHERES)}"
    return [
        Row(f"sphere({DIM})", "scenes-sphere", (*BASE, *text, *sphere, f"temperature.init={WIDE}")),
        Row(f"PS({DIM // SPHERES}, {SPHERES})", "scenes-sphere", (*BASE, *text, *product, low)),
        Row(
            f"Multi({DIM // SPHERES}, {SPHERES})",
            "scenes-sphere",
            (*BASE, *text, *product, low, "readout.name=class_tokens"),
        ),
    ]


EXPERIMENTS = {"spaces": spaces, "multi": multi}


def main() -> None:
    parser = argparse.ArgumentParser(description="Spaces, temperatures and class tokens on noisy scenes.")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    add_options(parser)
    options = parser.parse_args()
    print(table(run(EXPERIMENTS[options.experiment](), options), {**RECALL, **PRECISION, **ZERO_SHOT, "t": "t"}))


if __name__ == "__main__":
    main()
